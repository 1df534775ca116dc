/** `acoer eval`: accuracy and thinking length of a model on a benchmark, by the paper's protocol. */
import type { Command } from 'commander';
import { resolveConfig } from '../config';
import type { Config } from '../config';
import { loadDataset } from '../data';
import { evaluate, summarise } from '../eval';
import type { EvalSampling, EvalSummary, Graded } from '../eval';
import { loadTokenizer } from '../tokenizer';
import { addEngineOptions, addModelOptions, integer, number, required } from './command';
import type { CommandModule } from './command';
import { interruptible } from './interrupt';
import { withModel } from './session';
import type { ModelFlags } from './session';
import { formatTable } from './table';

interface EvalFlags extends ModelFlags {
  benchmark?: string;
  problems?: number;
  samples: number;
  temperature: number;
  maxNewTokens?: number;
  promptTemplate?: string;
  seed: number;
  json?: boolean;
}

/** Prompt and limits of the preset that fits: the embedded task has its own. */
function protocol(flags: EvalFlags): Pick<Config, 'promptTemplate' | 'enableThinking' | 'evalMaxNewTokens'> {
  const given = {
    model: flags.model,
    ...(flags.promptTemplate !== undefined && { promptTemplate: flags.promptTemplate }),
    ...(flags.maxNewTokens !== undefined && { evalMaxNewTokens: flags.maxNewTokens }),
  };
  return resolveConfig([given], flags.benchmark === 'tiny' ? 'tiny' : undefined);
}

function samplings({ temperature, samples, seed }: EvalFlags): EvalSampling[] {
  if (temperature === 0) return ['greedy'];
  return Array.from({ length: samples }, (_, sample) => ({ temperature, seed: seed + sample }));
}

/** Redraws one line on a terminal, else prints a line every tenth of the way. */
function progressPrinter(): (done: number, total: number) => void {
  let lastTenth = 0;
  return (done, total) => {
    if (process.stderr.isTTY) {
      process.stderr.write(`\r${done}/${total} answers${done === total ? '\n' : ''}`);
      return;
    }
    const tenth = Math.floor((10 * done) / total);
    if (tenth > lastTenth) process.stderr.write(`${done}/${total} answers\n`);
    lastTenth = Math.max(lastTenth, tenth);
  };
}

async function runEval(flags: EvalFlags): Promise<EvalSummary> {
  const { promptTemplate, enableThinking, evalMaxNewTokens } = protocol(flags);
  const dataset = await loadDataset({
    name: required(flags.benchmark, '--benchmark'),
    split: 'eval',
    seed: flags.seed,
  });
  const n = Math.min(flags.problems ?? dataset.size, dataset.size);
  return interruptible((signal) =>
    withModel(flags, signal, async ({ directory, model, policy }) => {
      const tokenizer = await loadTokenizer(directory);
      const rounds = samplings(flags);
      const progress = progressPrinter();
      const rows: Graded[] = [];
      for (const [round, sampling] of rounds.entries()) {
        const done = round * n;
        const completions: (Graded & { index: number })[] = [];
        await evaluate({
          model,
          policy,
          tokenizer,
          dataset,
          n,
          sampling,
          maxNewTokens: Math.min(evalMaxNewTokens, model.info.maxPositions),
          promptTemplate,
          enableThinking,
          signal,
          onProgress: (state) => progress(done + state.done, rounds.length * n),
          onCompletion: (completion) => completions.push(completion),
        });
        rows.push(...completions.sort((a, b) => a.index - b.index));
      }
      return summarise(rows);
    }),
  );
}

const percent = (fraction: number): string => `${(100 * fraction).toFixed(1)}%`;

function levelTable(summary: EvalSummary): string {
  const row = (name: string, s: { n: number; accuracy: number; thinkingTokens: number }): string[] => [
    name,
    String(s.n),
    percent(s.accuracy),
    s.thinkingTokens.toFixed(1),
  ];
  return formatTable([
    ['level', 'answers', 'accuracy', 'thinking tokens'],
    ...Object.entries(summary.perLevel).map(([level, s]) => row(level, s)),
    row('all', summary),
  ]);
}

function printSummary(summary: EvalSummary): void {
  const { correct, incorrect } = summary;
  process.stdout.write(
    `${levelTable(summary)}

thinking tokens  mean ${summary.thinkingTokens.toFixed(1)}, median ${summary.medianThinkingTokens.toFixed(1)}
total tokens     mean ${summary.totalTokens.toFixed(1)}, accuracy per 1K tokens ${summary.accuracyPer1kTokens.toFixed(1)}
correct          ${correct.n} answers, ${correct.thinkingTokens.toFixed(1)} thinking tokens
incorrect        ${incorrect.n} answers, ${incorrect.thinkingTokens.toFixed(1)} thinking tokens
cut off          ${percent(summary.truncated)} by the token limit
`,
  );
}

async function evalCommand(flags: EvalFlags): Promise<void> {
  const summary = await runEval(flags);
  if (!flags.json) {
    printSummary(summary);
    return;
  }
  const { model, adapter = null, benchmark, temperature, samples, seed } = flags;
  const sampled = temperature > 0 && { samples, seed };
  process.stdout.write(
    `${JSON.stringify({ model, adapter, benchmark, temperature, ...sampled, ...summary })}\n`,
  );
}

export const define: CommandModule['define'] = (command: Command) => {
  addModelOptions(command)
    .option('--benchmark <name|file>', 'tiny, or JSON Lines of {"question","answer"} (required)')
    .option('-n, --problems <n>', 'the first n problems (default: all)', integer(1))
    .option('--temperature <t>', '0: greedy', number(0), 0)
    .option('--samples <n>', 'answers per problem, with a temperature over 0', integer(1), 1)
    .option('--seed <n>', 'same seed, same answers', integer(0), 42)
    .option('--max-new-tokens <n>', 'longest answer (default: 16384; 256 on tiny)', integer(1))
    .option('--prompt-template <text>', "the user's turn; {problem} stands for the question")
    .option('--json', 'one JSON object instead of the table')
    .action(evalCommand);
  addEngineOptions(command);
};
