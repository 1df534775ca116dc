/**
 * `npm run make-tiny`: builds the embedded model with this program's own engine and writes it to assets/tiny.
 * Reproducible from --seed; takes about a quarter of an hour on two idle cores.
 */
import { copyFile, mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join, resolve } from 'node:path';
import { parseArgs } from 'node:util';

import { loadDataset } from '../../src/data';
import { createEngine } from '../../src/engine/engine';
import type { Model, Policy } from '../../src/engine/types';
import { errorMessage, exitCodeFor } from '../../src/base/errors';
import { makeFolders } from '../../src/base/folders';
import { type EvalSampling, type EvalSummary, evaluate } from '../../src/eval';
import { percent } from '../../src/base/text';
import { loadTokenizer, type Tokenizer } from '../../src/tokenizer';
import { initialWeights } from './init';
import { countLines } from './lines';
import { PHASES } from './phases';
import { encodeSafetensors } from '../../src/run';
import { runPhase } from './train';
import { generationConfig, modelConfig, tokenizerConfig, tokenizerJson } from './vocabulary';

const say = (line: string): boolean => process.stdout.write(`${line}\n`);

async function writeFiles(directory: string, seed: number): Promise<void> {
  const files: Record<string, object> = {
    'config.json': modelConfig(),
    'generation_config.json': generationConfig(),
    'tokenizer.json': tokenizerJson(),
    'tokenizer_config.json': tokenizerConfig(),
  };
  for (const [name, value] of Object.entries(files)) {
    await writeFile(join(directory, name), `${JSON.stringify(value, null, 2)}\n`);
  }
  await writeFile(join(directory, 'model.safetensors'), encodeSafetensors(initialWeights(seed)));
}

function report(label: string, summary: EvalSummary): void {
  const levels = Object.entries(summary.perLevel).map(
    ([level, { accuracy, thinkingTokens }]) =>
      `L${level} ${accuracy.toFixed(2)}/${thinkingTokens.toFixed(0)}`,
  );
  say(
    `${label}: accuracy ${summary.accuracy.toFixed(3)}, ${summary.thinkingTokens.toFixed(1)} thinking tokens, ` +
      `${percent(summary.truncated)} truncated  ${levels.join('  ')}`,
  );
}

async function evaluateBoth(model: Model, policy: Policy, tokenizer: Tokenizer): Promise<void> {
  const dataset = await loadDataset({ name: 'tiny', split: 'eval', seed: 0 });
  const settings: [string, number, EvalSampling][] = [
    ['greedy', 300, 'greedy'],
    ['T = 1 ', 500, { temperature: 1, seed: 1 }],
  ];
  for (const [label, n, sampling] of settings) {
    const completions: string[] = [];
    report(
      label,
      await evaluate({
        model,
        policy,
        tokenizer,
        dataset,
        n,
        sampling,
        maxNewTokens: 256,
        promptTemplate: '{problem}',
        onCompletion: ({ text }) => completions.push(text),
      }),
    );
    const lines = countLines(completions).map(
      ({ correct, total }, i) => `m=${i + 1} ${total === 0 ? '-' : (correct / total).toFixed(3)} of ${total}`,
    );
    say(`${label}: correct lines, by number of operations: ${lines.join('  ')}`);
  }
}

async function makeTiny(seed: number, out: string, threads: number | undefined): Promise<void> {
  const work = await mkdtemp(join(tmpdir(), 'acoer-make-tiny-'));
  const engine = await createEngine({ device: 'cpu', threads });
  try {
    await writeFiles(work, seed);
    const tokenizer = await loadTokenizer(work);
    const model = await engine.loadModel(work);
    const policy = await model.createPolicy({ kind: 'full', beta1: 0.9, beta2: 0.98 });
    const startMs = performance.now();
    let tokens = 0;
    for (const phase of PHASES) {
      await runPhase(
        {
          policy,
          tokenizer,
          seed,
          onStep: (step) => {
            tokens += step.tokens;
            if (step.step % 25 !== 0 && step.step !== phase.steps) return;
            const seconds = (performance.now() - startMs) / 1000;
            say(
              `${phase.name} ${step.step}/${phase.steps}  nll ${step.nll.toFixed(4)}  ` +
                `grad norm ${step.gradNorm.toFixed(2)}  ${(tokens / seconds).toFixed(0)} tokens/s  ${seconds.toFixed(0)} s`,
            );
          },
        },
        phase,
      );
      if (phase.answers) await evaluateBoth(model, policy, tokenizer);
    }
    await policy.save(join(work, 'model.safetensors'), 'float32');
    makeFolders(out);
    for (const name of [
      'config.json',
      'generation_config.json',
      'tokenizer.json',
      'tokenizer_config.json',
      'model.safetensors',
    ]) {
      await copyFile(join(work, name), join(out, name));
    }
    say(`written to ${out}`);
  } finally {
    await engine.dispose();
    await rm(work, { recursive: true, force: true });
  }
}

const { values } = parseArgs({
  options: {
    seed: { type: 'string', default: '1' },
    out: { type: 'string', default: resolve(__dirname, '../../assets/tiny') },
    threads: { type: 'string' },
  },
});
makeTiny(
  Number(values.seed),
  resolve(values.out),
  values.threads === undefined ? undefined : Number(values.threads),
).catch((error: unknown) => {
  process.stderr.write(`${errorMessage(error)}\n`);
  process.exitCode = exitCodeFor(error);
});
