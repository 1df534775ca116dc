/** `acoer eval`: accuracy and thinking length of models on benchmarks, by the paper's protocol. */
import { type Command, InvalidArgumentError, Option } from 'commander';
import { AcoerError } from '../errors';
import { addEngineOptions, collect, integer, number } from './command';
import type { CommandModule } from './command';
import { comparisonText } from './evaluation/comparison';
import { compareFiles, gradeCompletions } from './evaluation/files';
import { type EvalFlags, temperatureOf } from './evaluation/flags';
import { evaluateAll } from './evaluation/run';
import { evaluationText, fullReport, paperTable3, paperTable4 } from './evaluation/tables';
import { interruptible } from './interrupt';
import { writeJsonLine } from './jsonl';

/** What each way of calling the command leaves no room for. */
const ONLY_WITH_A_MODEL = ['model', 'adapter', 'run', 'base', 'out', 'problems'] as const;

const given = (value: unknown): boolean => (Array.isArray(value) ? value.length > 0 : value !== undefined);

function checkFlags(flags: EvalFlags): void {
  const { completions, compare, samples } = flags;
  const mode = completions !== undefined ? '--completions' : compare !== undefined ? '--compare' : null;
  if (completions !== undefined && compare !== undefined) {
    throw new AcoerError('BAD_CONFIG', '--completions and --compare are two commands; give one of them.');
  }
  if (compare !== undefined && compare.length !== 2) {
    throw new AcoerError('BAD_CONFIG', '--compare needs two files or folders, A and B.');
  }
  const idle = mode === null ? undefined : ONLY_WITH_A_MODEL.find((name) => given(flags[name]));
  if (idle !== undefined) {
    throw new AcoerError(
      'BAD_CONFIG',
      `--${idle} has no meaning with ${mode}, which runs no model; leave it out.`,
    );
  }
  if (mode === null && flags.tokenizer !== undefined) {
    throw new AcoerError(
      'BAD_CONFIG',
      '--tokenizer is for --completions and --compare; a model has its own.',
    );
  }
  if (samples > 1 && temperatureOf(flags) === 0) {
    throw new AcoerError(
      'BAD_CONFIG',
      `--samples ${samples} at --temperature 0 would give the same answer ${samples} times; give a temperature over 0.`,
    );
  }
}

async function evalCommand(flags: EvalFlags): Promise<void> {
  checkFlags(flags);
  await interruptible(async (signal) => {
    if (flags.compare !== undefined) {
      const compared = await compareFiles(flags, signal);
      if (flags.json === true) compared.forEach(writeJsonLine);
      else process.stdout.write(compared.map(comparisonText).join('\n'));
    } else if (flags.completions !== undefined) {
      const graded = await gradeCompletions(flags, signal);
      const names = graded.benchmark === null ? [] : graded.benchmark.split('=', 1);
      const beside = [...paperTable3(names), ...paperTable4(names)].map((part) => `${part}\n`).join('');
      if (flags.json === true) writeJsonLine(graded);
      else process.stdout.write(fullReport(graded) + beside);
    } else {
      const evaluated = await evaluateAll(flags, signal);
      if (flags.json === true) evaluated.forEach(writeJsonLine);
      else process.stdout.write(evaluationText(evaluated));
    }
  });
}

/** `--compare A B`: commander takes as many words as there are, so they are counted here. */
function twoFiles(value: string, list: string[] | undefined): string[] {
  if (list?.length === 2) throw new InvalidArgumentError('Name two files or folders.');
  return [...(list ?? []), value];
}

const HELP = `
A model:
  acoer eval --model tiny --benchmark tiny
  acoer eval --model M --benchmark math500 --base --adapter A --adapter B
  acoer eval --model M --benchmark aime25 -n 16 --temperature 1
An interrupted evaluation goes on when the same command names the same --out.

Every checkpoint of a run, on the run's own problems without --benchmark; the
last and the most accurate are marked:
  acoer eval --run RUN --base

No model, a file of completions: ours, vLLM's, OpenAI-style, lm-evaluation-
harness's, or plain columns:
  acoer eval --completions FILE

No model, two evaluations paired by problem, exact McNemar for accuracy and
bootstrap for tokens:
  acoer eval --compare A B`;

export const define: CommandModule['define'] = (command: Command) => {
  command
    .option('--model <model>', 'tiny, a folder in Hugging Face layout, or org/name[@revision] on the hub')
    .option('--adapter <folder>', 'a PEFT LoRA adapter (repeatable)', collect, [])
    .option('--run <folder>', 'every checkpoint of a run (repeatable)', collect, [])
    .option('--base', 'also the model without an adapter')
    .option('--benchmark <name|file>', 'a data set by name or file, or NAME=FILE (repeatable)', collect, [])
    .option('--problems <n>', 'the first n problems (default: all)', integer(1))
    .option('-n, --samples <k>', 'answers per problem', integer(1, 1 << 20), 1)
    .option('--temperature <t>', '0: greedy (default: 0; with several samples 1)', number(0))
    .option('--seed <n>', 'same seed, same answers', integer(0), 42)
    .option('--max-new-tokens <n>', 'longest answer (default: 16384; 256 on tiny)', integer(1))
    .option('--prompt-template <text>', "the user's turn; {problem} stands for the question")
    .option('--slots <n>', 'sequences decoded together at most (default: 64)', integer(1))
    .option('--out <folder>', 'completions and figures (default: evals/<date>-<benchmarks>)')
    .option('--completions <file>', 'grade these completions; no model is loaded')
    .option('--tokenizer <model>', 'counts tokens for files of completions that do not say')
    .addOption(
      new Option('--answers <how>', 'where answers are looked for in a file of completions')
        .choices(['boxed', 'last-box', 'math-verify', 'trl'])
        .default('boxed'),
    )
    .option('--compare <a b...>', 'two files or folders of evaluations, paired by problem', twoFiles)
    .option('--json', 'one JSON object a line for each evaluation instead of tables')
    .addHelpText('after', HELP)
    .action(evalCommand);
  addEngineOptions(command);
};
