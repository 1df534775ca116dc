/** `acoer train` on small random models of every family: two steps, and an adapter that loads again. */
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { createEngine } from '../../src/engine/engine';
import { readMetrics } from '../../src/run';
import { ended, spawnAcoer } from '../helpers/cli';
import { textModel } from '../helpers/text-model';

const folder = mkdtempSync(join(tmpdir(), 'acoer-families-'));
afterAll(() => rmSync(folder, { recursive: true, force: true }));

const SETTINGS = [
  ...['promptsPerStep=2', 'numGenerations=4', 'maxCompletionLength=48', 'evalProblems=4'],
  ...['evalSampledProblems=0', 'useRslora=true', 'formatWeight=0', 'reward=even'],
];

/** Makes the template open `<think>` itself, as that of DeepSeek-R1-Distill does. */
function openThinking(directory: string): void {
  const template =
    "{% for m in messages %}<|im_start|>{{ m['role'] }}\n{{ m['content'].split('</think>')[-1] }}<|im_end|>\n{% endfor %}" +
    '{% if add_generation_prompt %}<|im_start|>assistant\n<think>\n{% endif %}';
  const path = join(directory, 'tokenizer_config.json');
  const config = JSON.parse(readFileSync(path, 'utf8')) as object;
  writeFileSync(path, JSON.stringify({ ...config, chat_template: template }));
}

test.each(['qwen2', 'llama', 'mistral'] as const)('%s: two steps', async (family) => {
  const model = textModel({ family, dtype: family === 'mistral' ? 'bfloat16' : 'float32', std: 0.1 });
  if (family === 'qwen2') openThinking(model);
  const out = join(folder, family);
  // Half of all completions get a point, so that every group has something to learn.
  const reward = join(folder, 'even.cjs');
  writeFileSync(reward, 'module.exports = (rollout) => Number(rollout.totalTokens % 2 === 0);');
  const words = [`model=${model}`, `rewardModules.even=${reward}`, ...SETTINGS].flatMap((setting) => [
    '--set',
    setting,
  ]);
  const { code, stdout, stderr } = await ended(
    spawnAcoer('train', '--preset', 'tiny', '--out', out, '--max-steps', '2', ...words),
  );
  expect({ code, stderr: code === 0 ? '' : stderr }).toEqual({ code: 0, stderr: '' });
  expect(stdout).toContain(join(out, 'final'));
  const lines = readMetrics(join(out, 'metrics.jsonl'));
  expect(lines).toHaveLength(2);
  for (const line of lines) {
    // bf16 rounds in another place on each path.
    const bound = family === 'mistral' ? 0.3 : 1e-4;
    expect(line['sampling/sampling_logp_difference/max']).toBeLessThan(bound);
  }
  await using engine = await createEngine({ device: 'cpu', threads: 1 });
  const policy = await (await engine.loadModel(model)).loadAdapter(join(out, 'final'));
  expect(policy.info).toMatchObject({ rank: 16, alpha: 32, rslora: true });
});
