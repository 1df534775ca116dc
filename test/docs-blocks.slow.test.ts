/**
 * Every code block of README and docs is checked by what it is, and none is skipped silently:
 *
 * - TypeScript that imports the package runs, and prints the block `text prints` below it, which all of api.md has that
 *   prints; an expression
 *   with a comment `// {...}` behind it has that value. What needs the hub (a name of it in the code) is not run here.
 * - A block below a paragraph that names a command, `acoer ...`, and ends with a colon is what that command prints.
 * - A block of commands names commands and options that exist.
 * - YAML of ours is a valid configuration, or a sweep.
 * - All other blocks are listed below, each with the reason why it cannot be run here.
 *
 * What a model has computed differs between processors: in what a command prints of it every number counts as equal to
 * every other, in what code prints numbers within 30% (or 0.1); the widths of columns do not count.
 */
import { execFile } from 'node:child_process';
import {
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { pathToFileURL } from 'node:url';
import { promisify } from 'node:util';
import ts from 'typescript';
import { parse as parseYaml } from 'yaml';
import { type ConfigInput, resolveConfig } from '../src/config';
import { readSweepFile, sweepRuns } from '../src/sweep';
import { acoer, builtCli, ROOT } from './helpers/cli';

const run = promisify(execFile);

interface Block {
  page: string;
  /** Where its first line is in the page, for messages. */
  line: number;
  language: string;
  text: string;
  /** The paragraph before it. */
  before: string;
}

/** Log and decisions are records of their days. */
const pages = [
  'README.md',
  ...readdirSync(join(ROOT, 'docs'))
    .filter((name) => name.endsWith('.md') && name !== 'log.md')
    .map((name) => `docs/${name}`),
];

function blocksOf(page: string): Block[] {
  const text = readFileSync(join(ROOT, page), 'utf8');
  return [...text.matchAll(/^```([^\n]*)\n([^]*?)^```$/gm)].map((found) => ({
    page,
    line: text.slice(0, found.index).split('\n').length,
    language: found[1]!,
    text: found[2]!,
    before: text
      .slice(0, found.index)
      .trimEnd()
      .split(/\n\s*\n/)
      .at(-1)!,
  }));
}

const blocks = pages.flatMap(blocksOf);

/** Why a block cannot be run here, by how it begins. */
const NOT_RUN: readonly (readonly [page: string, begins: RegExp, why: string])[] = [
  ['README.md', /^\$ npx acoer generate/, 'two commands side by side; the second needs a trained run'],
  ['README.md', /^\$ npx acoer show/, 'answers of a trained run side by side'],
  [
    'README.md',
    /^(base model, greedy|Over-compressed|Shortened and held)/,
    'what a training of minutes prints',
  ],
  ['README.md', /^train\.js /, 'a list of folders'],
  ['docs/data.md', /^mine\.jsonl names no/, 'one line of a run on data that is not here'],
  ['docs/from-trl.md', /^trainer = GRPO/, 'TRL'],
  ['docs/models.md', /^model = AutoPeft/, 'PEFT'],
  ['docs/serve.md', /^from openai/, 'has a test of its own, test/real/openai-python.real.ts'],
  ['docs/ranks.md', /^torchrun/, 'has a test of its own, test/real/torchrun.real.ts'],
  ['docs/ranks.md', /^(#!\/bin\/bash|mpirun|containers:)/, 'launchers and jobs of a cluster'],
  ['docs/resume.md', /^(#!\/bin\/bash|apiVersion)/, 'jobs of a cluster'],
  ['docs/install.md', /^(allowBuilds|overrides)/, "pnpm's file"],
  [
    'docs/install.md',
    /^addon {8}ok, from/,
    'where the engine was installed compiled: scripts/install-check.mjs',
  ],
  ['docs/install.md', /^the native engine is not/, 'the same without libtorch'],
  ['docs/install.md', /^docker /, 'needs a daemon'],
  [
    'docs/losses.md',
    /^registerLoss\(\{\n {2}name: 'reinforce'/,
    'a part of examples/loss.mjs, which has a test',
  ],
  [
    'docs/rewards.md',
    /^export default (\{|\(rollout\) => \(\{)/,
    'a module of its own, of the kind that test/train/reward-module runs',
  ],
  ['docs/verifier.md', /^verifyAnswer\(/, 'the same calls as in api.md, which run'],
  ['docs/sft.md', /^\$ head -2/, 'what a training prints'],
  ['docs/speed.md', /./, 'measurements'],
  ['docs/terminal.md', /./, 'what a training of minutes prints'],
  ['docs/tiny.md', /./, 'what a training of minutes prints'],
  ['docs/trackers.md', /^import /, 'other programs'],
];

const notRun = ({ page, text }: Block): boolean =>
  NOT_RUN.some(([of, begins]) => of === page && begins.test(text));

const isCode = ({ language, text }: Block): boolean => language === 'ts' && /from 'acoer/.test(text);
const isYaml = ({ language }: Block): boolean => language === 'yaml';
const COMMAND = /^(npx acoer|acoer|npm|node|scripts\/|python3|pnpm)\b/;
const isCommands = ({ language, text }: Block): boolean => language === '' && COMMAND.test(text);
const isPrinted = ({ language }: Block): boolean => language === 'text prints';

/** The command whose output the block is. */
function commandOf({ language, before }: Block): string[] | null {
  const named = [...before.matchAll(/`acoer ([^`]+)`/g)].at(-1)?.[1];
  return language === '' && named !== undefined && before.endsWith(':') ? named.split(/\s+/) : null;
}
const isOutput = (block: Block): boolean => !isCommands(block) && commandOf(block) !== null;

const kinds = [isCode, isYaml, isCommands, isPrinted, isOutput];

const named = (list: readonly Block[]) =>
  list.map((block): [string, Block] => [`${block.page}:${block.line}`, block]);

let folder: string;
beforeAll(() => {
  builtCli();
  folder = mkdtempSync(join(tmpdir(), 'acoer-blocks-'));
});
afterAll(() => rmSync(folder, { recursive: true, force: true }));

test('every block is of a kind, or is listed with the reason why it is not run', () => {
  expect(blocks.length).toBeGreaterThan(50);
  const open = blocks.filter((block) => !notRun(block) && !kinds.some((is) => is(block)));
  expect(named(open).map(([name]) => name)).toEqual([]);
  const idle = NOT_RUN.filter(
    ([page, begins]) => !blocks.some((b) => b.page === page && begins.test(b.text)),
  );
  expect(idle).toEqual([]);
});

const NUMBER = /[+-]?\d[\d,]*(\.\d+)?(e-?\d+)?/g;

/** Every number alike, and what gives columns their widths. */
const loose = (text: string): string =>
  text
    .replace(/\(node:\d+\)[^]*$/, '')
    .replace(NUMBER, '#')
    .replace(/-{2,}/g, '-')
    .replace(/[^\S\n]+/g, ' ')
    .replace(/ +$/gm, '')
    .trim();
const numbersIn = (text: string): number[] =>
  [...text.matchAll(NUMBER)].map(([number]) => Number(number.replaceAll(',', '')));

/** Pairs that no difference between processors explains: an accuracy of 0 instead of 1. */
const farApart = (seen: readonly number[], said: readonly number[]): number[][] =>
  seen.flatMap((a, i) => {
    const b = said[i]!;
    return Math.abs(a - b) <= 0.1 + 0.3 * Math.max(Math.abs(a), Math.abs(b)) ? [] : [[a, b]];
  });

const exact = (text: string): string => text.replace(/ +$/gm, '').trim();

/** Commands that compute nothing with a model print the same everywhere. */
const MODEL_COMMANDS = ['eval', 'generate', 'score', 'train', 'sft'];

test.each(named(blocks.filter((block) => isOutput(block) && !notRun(block))))(
  '%s is what the command prints',
  async (_, block) => {
    const words = commandOf(block)!;
    const where = process.cwd();
    mkdirSync(join(folder, 'docs'), { recursive: true });
    process.chdir(folder);
    try {
      const { stdout } = await acoer(...words);
      const seen = MODEL_COMMANDS.includes(words[0]!) ? loose : exact;
      expect(seen(stdout)).toContain(seen(block.text));
    } finally {
      process.chdir(where);
    }
  },
);

const HUB = /'(Qwen|AI-MO|HuggingFaceH4|deepseek-ai)\//;

/** `expression; // {...}`: the value of the expression is the comment. */
const checked = (code: string): string =>
  code.replace(
    /^(?!import|const|let|\/\/)(\S.*\)); \/\/ (\{.*\}|\[.*\]|true|false|[\d.]+)$/gm,
    '__checked($1, `$2`);',
  );

const PRELUDE = `import { inspect as __inspect } from 'node:util';
const __checked = (value, said) => {
  const shown = __inspect(value, { breakLength: Infinity });
  if (shown !== said) throw new Error(\`it is \${shown}, not \${said}\`);
};
`;

const { exports: entries } = JSON.parse(readFileSync(join(ROOT, 'package.json'), 'utf8')) as {
  exports: Record<string, { default: string }>;
};

function runnable(code: string): string {
  const linked = checked(code).replace(/from '(acoer[^']*)'/g, (_, name: string) => {
    const { default: target } = entries[name.replace('acoer', '.')]!;
    return `from '${pathToFileURL(join(ROOT, target)).href}'`;
  });
  const options = { module: ts.ModuleKind.ESNext, target: ts.ScriptTarget.ES2022 };
  return PRELUDE + ts.transpileModule(linked, { compilerOptions: options }).outputText;
}

const printedBy = (block: Block): Block | undefined => {
  const next = blocks[blocks.indexOf(block) + 1];
  return next !== undefined && next.page === block.page && isPrinted(next) ? next : undefined;
};

test.each(named(blocks.filter((block) => isCode(block) && !notRun(block) && !HUB.test(block.text))))(
  '%s runs and prints what stands below it',
  async (name, block) => {
    const own = mkdtempSync(join(folder, 'code-'));
    const file = join(own, 'main.mjs');
    writeFileSync(file, runnable(block.text));
    const { stdout } = await run(process.execPath, [file], { cwd: own, maxBuffer: 1 << 26 });
    const printed = printedBy(block);
    // On the page of the library, code that prints says what.
    const prints = printed !== undefined || (block.page === 'docs/api.md' && /console\.log/.test(block.text));
    expect([name, printed !== undefined]).toEqual([name, prints]);
    if (printed === undefined) return;
    expect(loose(stdout)).toBe(loose(printed.text));
    expect(farApart(numbersIn(stdout), numbersIn(printed.text))).toEqual([]);
  },
);

const isSweep = ({ text }: Block): boolean => /^base:/m.test(text);

test.each(named(blocks.filter((block) => isYaml(block) && !isSweep(block) && !notRun(block))))(
  '%s is a configuration',
  (_, { text }) => {
    expect(() => resolveConfig([parseYaml(text) as ConfigInput], 'paper')).not.toThrow();
  },
);

test.each(named(blocks.filter((block) => isYaml(block) && isSweep(block))))(
  '%s is a sweep',
  (_, { text }) => {
    const path = join(folder, 'sweep.yaml');
    writeFileSync(path, text);
    if (!existsSync(join(folder, 'configs'))) symlinkSync(join(ROOT, 'configs'), join(folder, 'configs'));
    expect(sweepRuns(readSweepFile(path)).length).toBeGreaterThan(1);
  },
);

/** The `acoer` commands of a block: the words of each without comments. */
const commandsIn = ({ text }: Block): string[][] =>
  text
    .split('\n')
    .map((line) => line.replace(/\s+#.*$/, '').trim())
    .filter((line) => /^(npx )?acoer /.test(line))
    .map((line) => line.replace(/^(npx )?acoer /, '').split(/\s+/));

test('the commands of the pages exist, with their options', async () => {
  const asked = blocks.filter(isCommands).flatMap(commandsIn);
  expect(asked.length).toBeGreaterThan(15);
  const helps = new Map<string, string>();
  const wrong: string[] = [];
  for (const [command, ...words] of asked) {
    if (!helps.has(command!)) {
      const { code, stdout } = await acoer(command!, '--help');
      helps.set(command!, code === 0 ? stdout : '');
    }
    const options = words.filter((word) => /^--?[a-z]/.test(word)).map((word) => word.split('=')[0]!);
    const help = helps.get(command!)!;
    if (help === '') wrong.push(command!);
    wrong.push(
      ...options
        .filter((one) => !help.includes(`${one} `) && !help.includes(`${one},`))
        .map((one) => `${command} ${one}`),
    );
  }
  expect(wrong).toEqual([]);
});
