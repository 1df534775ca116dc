/** `acoer eval`: accuracy and thinking length of models on benchmarks, following the paper's protocol. */
import { type Command, InvalidArgumentError, Option } from 'commander';
import { badUsage } from '../base/errors';
import { contaminationLines } from '../data';
import { printableLine } from '../base/printable';
import { amongRanks } from './among-ranks';
import {
  addEngineOptions,
  integer,
  kvCacheDtypeOption,
  number,
  numSpeculativeTokensOption,
  path,
  repeatable,
} from './command';
import { comparisonText } from './evaluation/comparison';
import { compareFiles, gradeCompletions } from './evaluation/files';
import { type EvalFlags, temperatureOf } from './evaluation/flags';
import { evaluateAll } from './evaluation/run';
import { runConfigs } from './evaluation/subjects';
import { evaluationText, fullReport, paperTable3, paperTable4 } from './evaluation/tables';
import { interruptible } from './interrupt';
import { addJudgeOptions } from './judge';
import { endWithParent } from '../base/parent';
import { addRanksOptions, inProcesses } from './nproc';
import { printJsonLine, printText } from './output';

/** Options that have no meaning without a model. */
const ONLY_WITH_A_MODEL = ['model', 'adapter', 'run', 'trust', 'base', 'out', 'problems', 'nproc'] as const;

const given = (value: unknown): boolean => (Array.isArray(value) ? value.length > 0 : value !== undefined);

function checkFlags(flags: EvalFlags): void {
  const { completions, compare, samples } = flags;
  const mode = completions !== undefined ? '--completions' : compare !== undefined ? '--compare' : null;
  if (completions !== undefined && compare !== undefined) {
    throw badUsage('--completions and --compare cannot be combined; give one of them.');
  }
  if (compare !== undefined && compare.length !== 2) {
    throw badUsage('--compare needs two files or folders.');
  }
  const idle = mode === null ? undefined : ONLY_WITH_A_MODEL.find((name) => given(flags[name]));
  if (idle !== undefined) {
    throw badUsage(`--${idle} cannot be used with ${mode}, which runs no model; remove it.`);
  }
  if (mode === null && flags.tokenizer !== undefined) {
    throw badUsage('--tokenizer is only for --completions and --compare; a model has its own tokenizer.');
  }
  if (flags.trust === true && flags.run.length === 0) {
    throw badUsage('--trust is for the judge that a run names; give --run, or remove it.');
  }
  if (flags.maxRestarts !== undefined && flags.out === undefined) {
    throw badUsage('--max-restarts goes with --out, where the answers are that need not be given again.');
  }
  if (samples > 1 && temperatureOf(flags) === 0) {
    throw badUsage(
      `--samples ${samples} at --temperature 0 would give the same answer ${samples} times; set a temperature above 0.`,
    );
  }
}

async function evalCommand(flags: EvalFlags): Promise<void> {
  checkFlags(flags);
  await inProcesses(flags, () => evaluateHere(flags));
}

async function evaluateHere(flags: EvalFlags): Promise<void> {
  endWithParent();
  await interruptible(async (signal) => {
    if (flags.compare !== undefined) {
      const compared = await compareFiles(flags, signal);
      if (flags.json === true) compared.forEach(printJsonLine);
      else printText(compared.map(comparisonText).join('\n').trimEnd());
    } else if (flags.completions !== undefined) {
      const graded = await gradeCompletions(flags, signal);
      const names = graded.benchmark === null ? [] : graded.benchmark.split('=', 1);
      const beside = [...paperTable3(names), ...paperTable4(names)].map((part) => `${part}\n`).join('');
      if (flags.json === true) printJsonLine(graded);
      else printText((fullReport(graded) + beside).trimEnd());
    } else {
      const done = await amongRanks(flags, 'evaluation', signal, (ranks, ended) =>
        evaluateAll(flags, ranks, ended),
      );
      // On another rank than 0.
      if (done === null) return;
      const { evaluated, benchmarks } = done;
      if (flags.json === true) return evaluated.forEach(printJsonLine);
      printText(evaluationText(evaluated).trimEnd());
      const own = flags.benchmark.length === 0;
      const asked = benchmarks.map(({ name, dataset }) => ({ name, dataset: own ? null : dataset }));
      const lines = await contaminationLines(runConfigs(flags), asked, signal);
      lines.forEach((line) => printText(printableLine(line, 400)));
    }
  });
}

/** Parses `--compare A B`: commander takes any number of words, so they are counted here. */
function twoFiles(value: string, list: string[] | undefined): string[] {
  if (list?.length === 2) throw new InvalidArgumentError('Give exactly two files or folders.');
  return [...(list ?? []), value];
}

const HELP = `
Evaluate a model:
  acoer eval --model tiny --benchmark tiny
  acoer eval --model M --benchmark math500 --base --adapter A --adapter B
  acoer eval --model M --benchmark aime25 -n 16 --temperature 1
To resume an interrupted evaluation, repeat the command with the same --out.
With --nproc N, or under torchrun, srun or mpirun, several processes share the
problems (docs/ranks.md).

Evaluate every checkpoint of a run, on the run's own problems unless --benchmark
is given; the last and the most accurate checkpoint are marked:
  acoer eval --run RUN --base

Grade a file of completions without a model: ours, vLLM's, OpenAI-style,
lm-evaluation-harness's, or plain columns:
  acoer eval --completions FILE

Compare two evaluations without a model, paired by problem: exact McNemar test
for accuracy, bootstrap for tokens:
  acoer eval --compare A B`;

export function define(command: Command): void {
  command
    .option('--model <model>', 'tiny, a folder in Hugging Face layout, or org/name[@revision] on the hub')
    .addOption(repeatable('--adapter <folder>', 'a PEFT LoRA adapter'))
    .addOption(repeatable('--run <folder>', 'evaluate every checkpoint of a run'))
    .option('--trust', 'with --run: run the code of the judge that the run names')
    .option('--base', 'also evaluate the model without an adapter')
    .addOption(repeatable('--benchmark <name|file>', 'data set by name or file, or NAME=FILE'))
    .option('--problems <n>', 'evaluate only the first n problems (default: all)', integer(1))
    .option('-n, --samples <k>', 'answers per problem', integer(1, 1 << 20), 1)
    .option(
      '--temperature <t>',
      'sampling temperature; 0: greedy (default: 0, or 1 with several samples)',
      number(0),
    )
    .option('--seed <n>', 'seed; the same seed gives the same answers', integer(0), 42)
    .option('--max-new-tokens <n>', 'maximum tokens per answer (default: 16384; 256 on tiny)', integer(1))
    .option('--prompt-template <text>', 'user message; {problem} is replaced by the problem')
    .option('--slots <n>', 'maximum sequences decoded together (default: 64)', integer(1))
    .addOption(kvCacheDtypeOption())
    .addOption(numSpeculativeTokensOption())
    .option(
      '--out <folder>',
      'where to write completions and results (default: evals/<date>-<benchmarks>)',
      path,
    )
    .option('--completions <file>', 'grade these completions without loading a model')
    .option('--tokenizer <model>', 'tokenizer for files of completions that lack token counts')
    .addOption(
      new Option('--answers <how>', 'where to look for answers in a file of completions')
        .choices(['boxed', 'last-box', 'math-verify', 'trl'])
        .default('boxed'),
    )
    .option('--compare <a b...>', 'compare two files or folders of evaluations, paired by problem', twoFiles)
    .option('--json', 'print one line of JSON per evaluation instead of tables')
    .addHelpText('after', HELP)
    .action(evalCommand);
  addJudgeOptions(command);
  addEngineOptions(command);
  addRanksOptions(command, 'evaluate');
}
