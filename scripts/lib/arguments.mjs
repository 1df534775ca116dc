/** A script's arguments: `--help` prints the comment at its head, and a mistake is one line and exit code 2. */
import { readFileSync } from 'node:fs';
import { basename } from 'node:path';
import { fileURLToPath } from 'node:url';
import { parseArgs } from 'node:util';
import { messageOf } from './errors.mjs';

/** @param {string} file @returns {string} the text of its first block comment */
const headOf = (file) =>
  (/\/\*\*([^]*?)\*\//.exec(readFileSync(file, 'utf8'))?.[1] ?? '').trim().replaceAll(/^( \*|\*) ?/gm, '');

/**
 * @template {import('node:util').ParseArgsConfig} T
 * @param {string} url the script's `import.meta.url`
 * @param {T} config of `parseArgs`
 * @returns {ReturnType<typeof parseArgs<T>>}
 */
export function scriptArguments(url, config) {
  const file = fileURLToPath(url);
  const options = { ...config.options, help: { type: /** @type {const} */ ('boolean'), short: 'h' } };
  try {
    const parsed = parseArgs({ ...config, options });
    if (!Object.hasOwn(parsed.values, 'help')) return /** @type {ReturnType<typeof parseArgs<T>>} */ (parsed);
    console.log(headOf(file));
    process.exit(0);
  } catch (error) {
    console.error(`${basename(file)}: ${messageOf(error)} (--help lists the options)`);
    process.exit(2);
  }
}
