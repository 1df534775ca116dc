/** The model card: front matter that hubs accept, the run's figures, a command that gives its settings. */
import { execFileSync } from 'node:child_process';
import { parse } from 'yaml';
import {
  parseAssignments,
  PRESETS,
  resolveConfig,
  trainCommand,
  type Config,
  type ConfigInput,
} from '../../src/config';
import { summarise } from '../../src/eval/summary';
import { modelCard, type CardContent } from '../../src/train/model-card';

const none = { base: { greedy: null, sampled: null }, trained: { greedy: null, sampled: null } };
const runOf = (config: Config) => ({
  directory: '/home/me/runs/one',
  reward: 'acoer',
  seed: config.seed,
  steps: config.maxSteps,
  best: null,
  rollbacks: 0,
});

function content(values: ConfigInput, more: Partial<CardContent> = {}): CardContent {
  const config = resolveConfig([values]);
  const summary = { ...none, run: runOf(config) };
  const trainData = { name: config.dataset };
  const adapted = [
    { layer: 0, module: 'q_proj', rank: 16, alpha: 32 },
    { layer: 1, module: 'q_proj', rank: 8, alpha: 32 },
  ] as const;
  return { config, summary, trainData, evalData: null, forkedAt: null, adapted, ...more };
}

const frontMatter = (card: string): unknown => parse(card.split('---\n')[1]!);

test('ranks that differ are given as a range', () => {
  expect(modelCard(content({ targetModules: ['q_proj'] }))).toMatch(
    /\| LoRA +\| rank 8 to 16, alpha 32, dropout 0 +\|\n\| target modules +\| q_proj \(2 linears\) /,
  );
});

test('a hub model and hub data are named without their commits', () => {
  const sha = 'a'.repeat(40);
  const source = {
    pinned: `numinamath-tir@${sha} + openai/gsm8k@${sha}`,
  } as CardContent['trainData']['source'];
  const trainData = { name: 'numinamath-tir + openai/gsm8k', source };
  const card = modelCard(content({ model: `Qwen/Qwen3-1.7B@${sha}` }, { trainData }));
  expect(frontMatter(card)).toEqual({
    base_model: 'Qwen/Qwen3-1.7B',
    base_model_relation: 'adapter',
    datasets: ['AI-MO/NuminaMath-TIR', 'openai/gsm8k'],
    library_name: 'peft',
    pipeline_tag: 'text-generation',
    tags: ['acoer', 'grpo', 'lora', 'reasoning'],
  });
  expect(card).toContain('\n# Qwen/Qwen3-1.7B with GRPO and the reward acoer\n');
  expect(card).toContain(`model=Qwen/Qwen3-1.7B@${sha}`);
  // acoer is not on npm; in a clone, npx finds the command anyway.
  expect(card).toContain('\nnpx acoer train --preset ');
  expect(card).not.toContain('npm package');
});

test('local files are named without their folders, and not in the front matter', () => {
  const card = modelCard(
    content({
      model: '/home/me/models/mine',
      dataset: '/home/me/data/train.jsonl + gsm8k',
      evalDataset: '/home/me/data/test.jsonl',
      rewardModules: { short: '/home/me/rewards/short.js' },
    }),
  );
  expect(card).not.toContain('/home');
  expect(frontMatter(card)).not.toHaveProperty('base_model');
  expect(frontMatter(card)).not.toHaveProperty('datasets');
  expect(card).toContain('`train.jsonl + gsm8k`');
  for (const word of ['model=mine', 'evalDataset=test.jsonl', '{"short":"short.js"}'])
    expect(card).toContain(word);
});

test('the figures are those of the summary', () => {
  const graded = (thinkingTokens: number, correct: boolean) => ({
    thinkingTokens,
    totalTokens: thinkingTokens + 5,
    verdict: { correct },
    truncated: false,
    level: null,
  });
  const rows = (...pairs: [number, boolean][]) =>
    summarise(pairs.map(([n, right]) => graded(n, right)) as never);
  const base = { greedy: rows([100, true], [201, false]), sampled: null };
  const trained = { greedy: rows([40, true], [50, true]), sampled: null };
  const given = content({ model: 'tiny' }, { evalData: { name: 'tiny' } });
  const card = modelCard({ ...given, summary: { ...given.summary, base, trained } });
  expect(card).toContain('| greedy | 2 | 50.0% | 100.0% | 150.5 | 45.0 |');
  expect(card).not.toContain('sampled at');
  expect(modelCard(given)).toContain('This run was not evaluated.');
});

test('a fork and rollbacks are mentioned', () => {
  const given = content({ model: 'tiny' }, { forkedAt: 100 });
  given.summary.run.rollbacks = 2;
  const card = modelCard(given);
  expect(card).toContain('| forked from another run | at step 100 |');
  expect(card).toContain('| rollbacks | 2 |');
});

describe('the command', () => {
  /** The words after `train` as a shell passes them on. */
  function wordsOf(command: string): string[] {
    const rest = command.slice(command.indexOf(' train ') + ' train '.length);
    return execFileSync('sh', ['-c', `printf '%s\\n' ${rest}`], { encoding: 'utf8' })
      .trimEnd()
      .split('\n');
  }

  const variants: [string, ConfigInput & { preset?: string }][] = [
    ...Object.keys(PRESETS).map((preset): [string, { preset: string }] => [preset, { preset }]),
    [
      'its own rewards',
      { reward: [{ name: 'acoer', weight: 0.5 }], rewardParams: { acoer: { gamma: 0.3 } } },
    ],
    ['the tiny model with the numbers of the paper', { model: 'tiny', preset: 'paper' }],
    ['text a shell would split', { preset: 'tiny', promptTemplate: "{problem}  It's $5 \\boxed{}", seed: 7 }],
    [
      'text that YAML would read as something else',
      { preset: 'tiny', name: '12', promptTemplate: '{problem} # yes: no' },
    ],
    ['names that YAML reserves', { model: '@mine', dataset: '@data/train.jsonl', evalDataset: '+ x.jsonl' }],
    ['rates', { preset: 'tiny', learningRate: 1e-7, adamEpsilon: 1e-12 }],
  ];
  test.each(variants)('%s: gives the same settings', (_, values) => {
    const config = resolveConfig([values]);
    const [flag, preset, ...words] = wordsOf(trainCommand(config));
    expect(flag).toBe('--preset');
    const assignments = words.filter((word) => word !== '--set');
    expect(resolveConfig([parseAssignments(assignments)], preset)).toEqual(config);
  });
});
