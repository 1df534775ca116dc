/** `acoer init`: the files of a run of one's own, to begin with. */
import { existsSync, rmSync, writeFileSync } from 'node:fs';
import { join, relative, resolve } from 'node:path';
import type { Command } from 'commander';
import { badInput, whyUnwritten } from '../base/errors';
import { makeFolders } from '../base/folders';
import { readTextSync } from '../base/regular-file';
import { listed } from '../base/text';
import { printText } from './output';
import { alignTable } from './table';

const PACKAGE = join(__dirname, '..', '..');
const SETTINGS = 'acoer.yaml';
/** In assets/init. */
const FILES = [SETTINGS, 'judge.mjs', 'reward.mjs', 'rows.jsonl'];

/** For editors: where the schema of the settings is, from the file that has them. */
const schemaLine = (folder: string): string =>
  `# yaml-language-server: $schema=${relative(resolve(folder), join(PACKAGE, 'configs', 'schema.json'))}\n`;

function contentOf(name: string, folder: string): string {
  const text = readTextSync(join(PACKAGE, 'assets', 'init', name));
  return name === SETTINGS ? schemaLine(folder) + text : text;
}

/** Writes all files, or none. @throws BAD_INPUT for one that is there already, or a folder that cannot be written */
function writeFiles(folder: string): void {
  const there = FILES.filter((name) => existsSync(join(folder, name)));
  if (there.length > 0) {
    throw badInput(
      `${folder} already has ${listed(there)}, and nothing is written over; name a new folder: acoer init FOLDER.`,
    );
  }
  const written: string[] = [];
  try {
    makeFolders(folder);
    for (const name of FILES) {
      const path = join(folder, name);
      writeFileSync(path, contentOf(name, folder), { flag: 'wx' });
      written.push(path);
    }
  } catch (cause) {
    for (const path of written) rmSync(path, { force: true });
    throw badInput(`Cannot write to ${folder}: ${whyUnwritten(cause)}`, cause);
  }
}

function init(folder: string): void {
  writeFiles(folder);
  const next = [
    ...(resolve(folder) === process.cwd() ? [] : [[`cd ${folder}`, '']]),
    [`npx acoer data --config ${SETTINGS}`, 'the rows, as the model will be asked them'],
    [`npx acoer train ${SETTINGS}`, 'trains the embedded model with them'],
  ];
  const commands = alignTable(next, 2).map((line) => `  ${line.trimEnd()}`);
  printText([`wrote ${listed(FILES)}; next:`, '', ...commands].join('\n'));
}

export function define(command: Command): void {
  command
    .argument('[folder]', 'where to write; it is made if it is not there', '.')
    .addHelpText(
      'after',
      `
Writes settings, a judge, a reward and some rows to change into your own, and
prints what to run next. Nothing is written over.`,
    )
    .action(init);
}
