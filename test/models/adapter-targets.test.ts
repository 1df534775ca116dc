import { existsSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { TARGET_MODULES } from '../../src/engine/types';
import { configuredMatrices, moduleName, type TargetFields } from '../../src/models/adapter-targets';
import { peftTargets } from '../../src/run/final';

interface Case {
  name: string;
  fields: TargetFields & { use_rslora?: boolean };
  /** Rank and scale by the module's name, as PEFT makes them; absent: it refuses the configuration. */
  modules?: Record<string, [rank: number, scale: number]>;
}
const FILE = join(__dirname, '../fixtures/models/peft-targets.json');
const { numLayers, cases } = JSON.parse(readFileSync(FILE, 'utf8')) as { numLayers: number; cases: Case[] };

const read = (fields: TargetFields) => configuredMatrices(fields, numLayers, 'a.json');

/** What we read, as the fixture has it. */
function resolved(fields: Case['fields']): Case['modules'] {
  const { matrices, known } = read(fields);
  expect(known).toBe(true);
  return Object.fromEntries(
    matrices.map(({ layer, module, rank, alpha }) => {
      const scale = alpha / (fields.use_rslora === true ? Math.sqrt(rank!) : rank!);
      return [moduleName(layer, module), [rank!, scale]];
    }),
  );
}

describe("PEFT's rules for what an adapter adapts", () => {
  test.each(cases.map((entry) => [entry.name, entry] as const))('%s', (_, { fields, modules = {} }) => {
    expect(resolved(fields)).toEqual(modules);
  });

  test.each(cases.filter(({ modules }) => modules).map((entry) => [entry.name, entry] as const))(
    '%s, in the form that we write: the same',
    (_, { fields, modules }) => {
      const { matrices } = read(fields);
      const shape = {
        loraRank: fields.r,
        loraAlpha: fields.lora_alpha,
        useRslora: fields.use_rslora === true,
        loraDropout: 0,
        targetModules: TARGET_MODULES.filter((module) => matrices.some((matrix) => matrix.module === module)),
      };
      const known = matrices.map((matrix) => ({ ...matrix, rank: matrix.rank! }));
      const { r, lora_alpha, use_rslora } = fields;
      expect(resolved({ r, lora_alpha, use_rslora, ...peftTargets(shape, known, numLayers) })).toEqual(
        modules,
      );
    },
  );

  test('every case of the fixture was resolved by PEFT or refused', () => {
    expect(existsSync(FILE)).toBe(true);
    expect(cases.length).toBeGreaterThan(40);
    expect(cases.filter(({ modules }) => modules === undefined)).toHaveLength(4);
  });
});

const QV = { r: 4, lora_alpha: 8, target_modules: ['q_proj', 'v_proj'] };

describe("patterns that are not JavaScript's", () => {
  test.each(['.*q_proj++', '(?>model).*', '[]m]odel.*', '(?x) model', '(?a)model.*'])(
    'what is adapted is left to the tensors: %s',
    (target_modules) => {
      const { matrices, known } = read({ ...QV, target_modules });
      expect(known).toBe(false);
      expect(matrices).toHaveLength(7 * numLayers);
    },
  );

  test('a rank is left to the tensors, an alpha cannot be', () => {
    expect(read({ ...QV, rank_pattern: { 'q_proj++': 8 } }).matrices[0]!.rank).toBeNull();
    expect(() => read({ ...QV, alpha_pattern: { 'q_proj++': 8 } })).toThrow(
      'a.json: alpha_pattern has the regular expression "q_proj++", which this engine cannot read; name the modules instead',
    );
  });

  test('a pattern that runs away is refused in bounded time', () => {
    expect(() => read({ ...QV, target_modules: '(.+)+(.+)+(.+)+x' })).toThrow(
      /a\.json has a regular expression that takes longer than/,
    );
  });
});

test.each([
  [['lm_head', 'q_proj'], 'lm_head'],
  [['embed_tokens'], 'model.embed_tokens'],
  ['.*', 'model.embed_tokens'],
])('%j: refused by name', (target_modules, name) => {
  expect(() => read({ ...QV, target_modules })).toThrow(
    `a.json targets ${name}, which this engine does not adapt`,
  );
});
