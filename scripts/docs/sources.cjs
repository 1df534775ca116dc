/**
 * `require` for the TypeScript of src/ as it is, built or not: a build may be waiting for what is generated
 * here.
 */
const { readFileSync } = require('node:fs');
const Module = require('node:module');
const { join } = require('node:path');
const { transformSync } = require('@swc/core');

Module._extensions['.ts'] = (module, filename) => {
  const { code } = transformSync(readFileSync(filename, 'utf8'), {
    filename,
    swcrc: false,
    jsc: { parser: { syntax: 'typescript' }, target: 'es2022' },
    module: { type: 'commonjs', ignoreDynamic: true },
  });
  module._compile(code, filename);
};

const find = Module._resolveFilename;
Module._resolveFilename = (request, ...rest) => {
  const [, name = 'index'] = /^#verify(?:\/(.*))?$/.exec(request) ?? ['', ''];
  return find(name === '' ? request : join(__dirname, '../../packages/verify/src', `${name}.ts`), ...rest);
};

/** @param {string} name path below src, without `.ts` */
exports.source = (name) => require(`../../src/${name}.ts`);
