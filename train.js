#!/usr/bin/env node
'use strict';
// `node train.js [options]` is `acoer train [options]`: with no arguments it trains the embedded tiny model.
// The same from your own program:
//
//   const { train } = require('acoer');
//   const run = await train({ model: 'tiny', reward: 'acoer', maxSteps: 100 });
//   for await (const step of run) console.log(step.index, step.metrics['thinking/mean']);
//   const { base, trained } = await run.result();

const { existsSync } = require('node:fs');
const { join } = require('node:path');

const cli = join(__dirname, 'dist', 'cli', 'main.js');
if (existsSync(cli)) {
  require(cli).runAsProcess(['train', ...process.argv.slice(2)]);
} else {
  console.error('train.js: the package is not built; run npm ci');
  process.exitCode = 1;
}
