/** Imports point one way. They are read from the source text, so type imports count too. */
import { readdirSync, readFileSync } from 'node:fs';
import { dirname, join, normalize, relative } from 'node:path';

interface Import {
  file: string;
  target: string;
  names: string;
  typeOnly: boolean;
}

const SRC = join(__dirname, '..', 'src');
const VERIFIER = join(__dirname, '..', 'packages', 'verify');

function sourceFiles(): string[] {
  return readdirSync(SRC, { recursive: true, encoding: 'utf8' }).filter((name) => name.endsWith('.ts'));
}

function importsOf(file: string): Import[] {
  const text = readFileSync(join(SRC, file), 'utf8');
  const found: Import[] = [];
  const clause = /(?:^|\n)(?:import|export)\s+(type\s+)?((?:[^;'"]*?)\s+from\s+)?['"]([^'"]+)['"]/g;
  for (const [, type, names, target] of text.matchAll(clause)) {
    const inline = /^\{[^}]*\}/.exec((names ?? '').trim())?.[0];
    const words =
      inline
        ?.slice(1, -1)
        .split(',')
        .map((word) => word.trim())
        .filter(Boolean) ?? [];
    const typeOnly =
      type !== undefined || (words.length > 0 && words.every((word) => word.startsWith('type ')));
    found.push({ file, target: resolveTarget(file, target!), names: names ?? '', typeOnly });
  }
  for (const [, target] of text.matchAll(/(?:require|import)\(\s*['"]([^'"]+)['"]/g)) {
    found.push({ file, target: resolveTarget(file, target!), names: '', typeOnly: false });
  }
  return found;
}

/** Relative imports become paths below src without `.ts`; others are unchanged. */
function resolveTarget(file: string, target: string): string {
  return target.startsWith('.') ? relative('.', normalize(join(dirname(file), target))) : target;
}

const isOwn = (target: string): boolean => !target.startsWith('node:') && MODULES.has(moduleOf(target));
/** The folder of src that a file is in, or the file itself at the top level. */
const moduleOf = (path: string): string => path.replace(/\.ts$/, '').split('/')[0]!;

const LAYERS: readonly (readonly string[])[] = [
  ['base'],
  ['hub', 'http', 'parquet', 'ranks', 'drawing'],
  ['models'],
  ['config', 'losses'],
  ['judges'],
  ['rewards', 'tokenizer', 'data', 'engine', 'run', 'plan', 'monitor'],
  ['sampling'],
  ['eval', 'grading', 'samplers'],
  ['grpo'],
  ['life'],
  ['train'],
  ['sft'],
  ['export', 'lab', 'report', 'chat', 'push'],
  ['watch', 'serve', 'sweep'],
  ['index', 'bench'],
  ['cli'],
];
const MODULES = new Set(LAYERS.flat());
const layerOf = (module: string): number => LAYERS.findIndex((layer) => layer.includes(module));

/** The contracts between layers: only types and constants, which any layer may import. */
const CONTRACTS = new Set(['engine/types', 'engine/binding', 'rewards/types']);

const all = sourceFiles().flatMap(importsOf);
const shown = (list: Import[]): string[] => list.map(({ file, target }) => `${file} imports ${target}`);

test('the import scanner finds imports', () => {
  expect(all.length).toBeGreaterThan(100);
  expect(all).toContainEqual(
    expect.objectContaining({ file: 'base/errors.ts', target: 'engine/binding', typeOnly: true }),
  );
});

test('every folder of src has a layer', () => {
  expect([...new Set(sourceFiles().map(moduleOf))].filter((module) => !MODULES.has(module))).toEqual([]);
});

test('imports point to lower layers, never to a neighbour in the same layer', () => {
  const wrong = all.filter(({ file, target }) => {
    if (!isOwn(target) || CONTRACTS.has(target)) return false;
    const [from, to] = [moduleOf(file), moduleOf(target)];
    if (from === to) return false;
    // The configuration knows which losses there are; a loss binds its parameters as the configuration does.
    if ([from, to].sort().join() === 'config,losses') return false;
    return layerOf(to) >= layerOf(from);
  });
  expect(shown(wrong)).toEqual([]);
});

test('only base/addon.ts loads addons, each for the one file that knows its functions', () => {
  const loaders = sourceFiles().filter((file) => {
    const text = readFileSync(join(SRC, file), 'utf8');
    return /process\.dlopen|(acoer|lock|ranks|\})\.node['"`]/.test(text);
  });
  expect(loaders).toEqual(['base/addon.ts']);
  const users = all.filter(({ target }) => target === 'base/addon').map(({ file }) => file);
  expect(users.sort()).toEqual(['engine/binding.ts', 'ranks/native.ts', 'run/kernel-lock.ts']);
  const values = all.filter(
    ({ file, target, typeOnly }) => target === 'engine/binding' && !typeOnly && moduleOf(file) !== 'engine',
  );
  expect(shown(values)).toEqual([]);
});

test('rewards and judges import neither the engine nor the file system', () => {
  const wrong = all.filter(({ file, target }) => {
    const pure = ['rewards', 'judges'].includes(moduleOf(file));
    return (
      pure &&
      (moduleOf(target) === 'engine' || /^(node:)?fs(\/|$)/.test(target) || target === 'node:child_process')
    );
  });
  expect(shown(wrong)).toEqual([]);
});

test('the verifier is a package of its own: it imports nothing but its files, and installs nothing', () => {
  const source = join(VERIFIER, 'src');
  const wrong = readdirSync(source).flatMap((file) =>
    [...readFileSync(join(source, file), 'utf8').matchAll(/(?:from|import|require)[ (]*['"]([^'"]+)['"]/g)]
      .filter(([, target]) => !/^\.\/[a-z-]+$/.test(target!))
      .map(([, target]) => `${file} imports ${target}`),
  );
  expect(wrong).toEqual([]);
  const { dependencies, scripts } = JSON.parse(readFileSync(join(VERIFIER, 'package.json'), 'utf8')) as {
    dependencies?: object;
    scripts: object;
  };
  expect(dependencies).toBeUndefined();
  expect(Object.keys(scripts)).toEqual(['build', 'prepack']);
});

test('the algorithms and the life of a run take the engine as an argument; one file creates it', () => {
  const wrong = all.filter(
    ({ file, target, typeOnly }) =>
      ['grpo', 'life', 'train', 'sft'].includes(moduleOf(file)) &&
      moduleOf(target) === 'engine' &&
      !typeOnly &&
      // The process may have to exit without the engine.
      target !== 'engine/exit' &&
      file !== 'life/policy.ts',
  );
  expect(shown(wrong)).toEqual([]);
});

test('the algorithm imports no files, checkpoints, watchdog or dumps', () => {
  const wrong = all.filter(
    ({ file, target, typeOnly }) => moduleOf(file) === 'grpo' && moduleOf(target) === 'run' && !typeOnly,
  );
  expect(shown(wrong)).toEqual([]);
});

/** The imports among `files` that lie on a circle or on a way from one circle to another. */
function circles(files: readonly string[]): string[] {
  const own = new Set(files.map((file) => file.replace(/\.ts$/, '')));
  let arrows = all
    .map(({ file, target }) => ({ from: file.replace(/\.ts$/, ''), to: target }))
    .filter(({ from, to }) => own.has(from) && own.has(to));
  for (;;) {
    const [from, to] = [new Set(arrows.map((one) => one.from)), new Set(arrows.map((one) => one.to))];
    const inner = arrows.filter((one) => from.has(one.to) && to.has(one.from));
    if (inner.length === arrows.length) return arrows.map((one) => `${one.from} imports ${one.to}`);
    arrows = inner;
  }
}

test.each(['base', 'life', 'grpo', 'sft'])('the files of %s import each other in no circle', (room) => {
  const files = sourceFiles().filter((file) => moduleOf(file) === room);
  expect(files.length).toBeGreaterThan(10);
  expect(circles(files)).toEqual([]);
});

test('a sweep is started by the command line and by programs, and nothing else knows of sweeps', () => {
  const wrong = all.filter(
    ({ file, target }) => moduleOf(target) === 'sweep' && !['sweep', 'cli', 'index'].includes(moduleOf(file)),
  );
  expect(shown(wrong)).toEqual([]);
});

test('only src/run writes run files', () => {
  const writing =
    /\b(writeFile|writeFileSync|appendFile|createWriteStream|mkdir|mkdirSync|rename|renameSync|open|openSync|rm|rmSync)\b/;
  const wrong = all.filter(
    ({ file, target, names }) =>
      [
        'lab',
        'grpo',
        'life',
        'train',
        'sft',
        'eval',
        'rewards',
        'tokenizer',
        'data',
        'config',
        'monitor',
      ].includes(moduleOf(file)) &&
      /^(node:)?fs(\/|$)/.test(target) &&
      writing.test(names),
  );
  expect(shown(wrong)).toEqual([]);
});

test('commands print through cli/output.ts; the others draw colours and lines of our own, or come before anything is loaded', () => {
  const drawing = /^cli\/(output|needs-node|show|train|generate|chat|evaluation\/progress)\.ts$/;
  const writers = sourceFiles()
    .filter((file) => file.startsWith('cli/') && !drawing.test(file))
    .filter((file) => /process\.std(out|err)\.write|console\./.test(readFileSync(join(SRC, file), 'utf8')));
  expect(writers).toEqual([]);
});
