/** What a user of train() sees in an editor: types, documentation and the schema of configuration files. */
import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import Ajv from 'ajv';
import ts from 'typescript';
import { parse as parseYaml } from 'yaml';
import type { z } from 'zod';
import { CONFIG_KEYS, PRESETS, type configSchema, type ConfigInput } from '../../src/config';
import { METRICS } from '../../src/base/metric-names';

type Equal<A, B> = (<T>() => T extends A ? 1 : 2) extends <T>() => T extends B ? 1 : 2 ? true : false;

const ROOT = join(__dirname, '..', '..');

test('the generated interface matches the schema', () => {
  // Checked by `npm run check:types`.
  type Schema = z.input<typeof configSchema>;
  // The interface lists the names of losses for editors; the schema has a text.
  const equal: Equal<
    { [Name in keyof Omit<ConfigInput, 'lossType'>]: ConfigInput[Name] },
    { [Name in keyof Omit<Schema, 'lossType'>]: Schema[Name] }
  > = true;
  const own: ConfigInput['lossType'] = 'mine';
  expect([equal, own]).toEqual([true, 'mine']);
});

describe('in an editor', () => {
  const file = join(ROOT, 'test', 'config', 'in-an-editor.ts');
  const marks: string[] = [];
  const mark = (name: string) => {
    marks.push(name);
    return `/*${name}*/`;
  };
  const text = `import { train } from '../../src';
export async function main() {
  const run = await train({
${CONFIG_KEYS.map((key) => `    ${mark(key)}${key}: undefined,`).join('\n')}
  });
  for await (const step of run) step.metrics[${mark('metrics')}''];
}`;
  let service: ts.LanguageService;
  beforeAll(() => {
    const { options } = ts.parseJsonConfigFileContent(
      ts.readConfigFile(join(ROOT, 'tsconfig.json'), (path) => ts.sys.readFile(path)).config,
      ts.sys,
      ROOT,
    );
    service = ts.createLanguageService({
      getScriptFileNames: () => [file],
      getScriptVersion: () => '0',
      getScriptSnapshot: (path) => {
        const content = path === file ? text : ts.sys.readFile(path);
        return content === undefined ? undefined : ts.ScriptSnapshot.fromString(content);
      },
      getCurrentDirectory: () => ROOT,
      getCompilationSettings: () => options,
      getDefaultLibFileName: (given) => ts.getDefaultLibFilePath(given),
      fileExists: (path) => path === file || ts.sys.fileExists(path),
      readFile: (path) => ts.sys.readFile(path),
      readDirectory: (...given) => ts.sys.readDirectory(...given),
      directoryExists: (path) => ts.sys.directoryExists(path),
      getDirectories: (path) => ts.sys.getDirectories(path),
    });
  });
  const after = (name: string) => text.indexOf(`/*${name}*/`) + `/*${name}*/`.length;

  test('every setting of train() documents its meaning and default', () => {
    const bare = CONFIG_KEYS.filter((key) => {
      const info = service.getQuickInfoAtPosition(file, after(key));
      const documentation = ts.displayPartsToString(info?.documentation);
      const tags = info?.tags ?? [];
      // Only `@default` may have been parsed as a tag.
      return documentation.length < 10 || tags.map(({ name }) => name).join() !== 'default';
    });
    expect(bare).toEqual([]);
  });

  test('metric names are completed', () => {
    const { entries } = service.getCompletionsAtPosition(file, after('metrics') + 1, {})!;
    const offered = new Set(entries.map(({ name }) => name));
    expect(Object.keys(METRICS).filter((name) => !offered.has(name))).toEqual([]);
  });
});

describe('configs/schema.json', () => {
  const schema = JSON.parse(readFileSync(join(ROOT, 'configs', 'schema.json'), 'utf8')) as {
    properties: Record<string, { description?: string }>;
  };
  const validate = new Ajv({ allErrors: true, logger: false }).compile(schema);
  const files = readdirSync(join(ROOT, 'configs'), { recursive: true, encoding: 'utf8' });
  // The warm start of the study on a real model has the settings of `acoer sft`; sweeps are tested in test/sweep.
  const shipped = files.filter(
    (name) => /(?<!-sweep)\.yaml$/.test(name) && name !== join('real', 'sft.yaml'),
  );

  test.each(shipped)('%s is valid and names the schema', (name) => {
    const text = readFileSync(join(ROOT, 'configs', name), 'utf8');
    const [, place] = /^# yaml-language-server: \$schema=(\S+)\n/.exec(text) ?? [];
    expect(join(name, '..', place!)).toBe('schema.json');
    validate(parseYaml(text));
    expect(validate.errors ?? []).toEqual([]);
  });

  test.each(Object.entries(PRESETS))('preset %s is valid', (_, { values }) => {
    validate(values);
    expect(validate.errors ?? []).toEqual([]);
  });

  test.each<[string, unknown]>([
    ['an unknown setting', { learningRat: 1 }],
    ['a wrong type', { maxSteps: 'many' }],
    ['a value out of range', { warmupRatio: 2 }],
    ['an unknown preset', { preset: 'papr' }],
    ['an unknown parameter of a known reward', { rewardParams: { acoer: { warmup: 3 } } }],
  ])('%s is flagged', (_, config) => {
    expect(validate(config)).toBe(false);
  });

  test('what only a run can know is not flagged', () => {
    const own = { reward: 'mine', rewardParams: { mine: { any: [1] } }, levels: [5, 'hard'] };
    expect(validate({ $schema: 'x', ...own })).toBe(true);
  });

  test('every setting has a description, nested ones too', () => {
    const bare: string[] = [];
    const visit = (value: unknown, path: string): void => {
      if (typeof value !== 'object' || value === null) return;
      const { properties } = value as { properties?: Record<string, { description?: string }> };
      for (const [name, property] of Object.entries(properties ?? {})) {
        // Parameters of rewards are explained in docs/rewards.md.
        if (path.includes('rewardParams')) continue;
        if ((property.description ?? '').length < 10) bare.push(`${path}.${name}`);
      }
      for (const [key, inner] of Object.entries(value)) visit(inner, `${path}.${key}`);
    };
    visit(schema, '');
    expect(bare).toEqual([]);
    const missing = CONFIG_KEYS.filter((key) => schema.properties[key] === undefined);
    expect(missing).toEqual([]);
  });
});
