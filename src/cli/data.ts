/** `acoer data`: a data set as training or evaluation will see it. */
import { type Command, InvalidArgumentError, Option } from 'commander';
import { parseAssignments, readConfigFile, resolveConfig, type Config } from '../config';
import {
  type DatasetSpec,
  evalSpec,
  isLocal,
  KNOWN_DATASETS,
  loadDataset,
  loadRunData,
  type RunData,
  trainSpec,
} from '../data';
import { AcoerError, errorCode, errorMessage } from '../errors';
import { type ModelFetchOptions, resolveTokenizer } from '../models';
import { loadTokenizer } from '../tokenizer';
import { collect, integer, type CommandModule } from './command';
import { type DataReport, reportOn } from './data-report';
import { reportText } from './data-text';
import { showDownload } from './download';
import { interruptible } from './interrupt';

interface DataFlags {
  config?: string;
  set: string[];
  eval?: boolean;
  split?: string;
  subset?: string;
  rows: number[];
  model?: string;
  /** commander's name for --no-tokens. */
  tokens: boolean;
  sample: number;
  json?: boolean;
}

/** `3`: the first three; `5,9` or `10-12`: these, counted from 1. */
function rowList(text: string): number[] {
  if (/^\d+$/.test(text)) return Array.from({ length: Number(text) }, (_, i) => i);
  return text.split(',').flatMap((part) => {
    const [, from, to = from] = /^\s*([1-9]\d*)(?:-([1-9]\d*))?\s*$/.exec(part) ?? [];
    const length = Number(to) - Number(from) + 1;
    if (from === undefined || length < 1) {
      throw new InvalidArgumentError('Write a number (the first so many), or rows from 1: 5,9 or 10-12.');
    }
    return Array.from({ length }, (_, i) => Number(from) - 1 + i);
  });
}

function knownNames(): string {
  const known = Object.entries(KNOWN_DATASETS).map(([name, { repo, summary }]) => [name, repo, summary]);
  const rows = [['tiny', '', 'the embedded task, for the embedded model'], ...known];
  const widths = [0, 1].map((i) => Math.max(...rows.map((row) => row[i]!.length)));
  return [
    'Known by name:',
    ...rows.map(
      ([name, repo, text]) => `  ${name!.padEnd(widths[0]!)}  ${repo!.padEnd(widths[1]!)}  ${text}`,
    ),
    'Else: org/name of the Hugging Face hub, a file, or a folder of files.\n',
  ].join('\n');
}

/** The run's configuration with the data set that was named in it. */
function configOf(name: string | undefined, flags: DataFlags): Config {
  const { split: datasetSplit, subset: datasetConfig, model } = flags;
  const named =
    name === undefined
      ? { datasetSplit, datasetConfig, model }
      : { dataset: name, evalDataset: null, datasetSplit, datasetConfig, model };
  const file = flags.config === undefined ? [] : [readConfigFile(flags.config)];
  const preset = flags.config === undefined && name !== 'tiny' ? 'paper' : undefined;
  return resolveConfig([...file, named, parseAssignments(flags.set)], preset);
}

/** Sets made for evaluation are looked at as such. */
function specOf(config: Config, flags: DataFlags): DatasetSpec {
  if (flags.eval === true && config.evalDataset !== null) return evalSpec(config);
  const plain = config.dataset.split('@')[0]!;
  const evaluationOnly = Object.hasOwn(KNOWN_DATASETS, plain) && KNOWN_DATASETS[plain]!.trainSplit === null;
  if (flags.eval !== true && !evaluationOnly) return trainSpec(config);
  return { ...trainSpec(config), split: 'eval', dropUnparsedGold: false };
}

/**
 * The data as a run takes it apart into what it trains on and what it evaluates on, or why it would not; null for a look
 * at one split, and for data of the hub named alone, whose evaluation split nobody asked to fetch.
 */
async function runView(config: Config, flags: DataFlags, options: ModelFetchOptions) {
  if (flags.split !== undefined || (flags.config === undefined && !isLocal(config.dataset))) return null;
  try {
    return await loadRunData({ ...config, skipBadRows: true }, {}, options);
  } catch (error) {
    // The rows that make it so are to be looked at all the same.
    if (errorCode(error) !== 'BAD_CONFIG') throw error;
    return { refused: `a run would refuse this data: ${errorMessage(error)}` };
  }
}

/** How many problems a run trains on and evaluates on, and why not on all. */
function splitOf(
  view: RunData | { refused: string } | null,
): Pick<DataReport, 'training' | 'evaluation' | 'notices'> {
  if (view === null) return {};
  if ('refused' in view) return { notices: [view.refused] };
  return { training: view.trainData.size, evaluation: view.evalData?.size ?? 0, notices: view.notices };
}

async function openTokenizer(config: Config, flags: DataFlags, options: ModelFetchOptions) {
  if (!flags.tokens) return null;
  try {
    return await loadTokenizer(await resolveTokenizer(config.model, options));
  } catch (error) {
    if (flags.model !== undefined || errorCode(error) === 'INTERRUPTED') throw error;
    throw new AcoerError(
      'BAD_INPUT',
      `${errorMessage(error)} Prompts are counted in tokens of ${config.model}: name another with --model, or count characters with --no-tokens.`,
      { cause: error },
    );
  }
}

async function dataCommand(name: string | undefined, flags: DataFlags): Promise<void> {
  if (name === undefined && flags.config === undefined) {
    process.stdout.write(knownNames());
    return;
  }
  const config = configOf(name, flags);
  await interruptible(async (signal) => {
    const fetching = (what: string) => showDownload(what, signal);
    const tokenizer = await openTokenizer(config, flags, fetching(config.model));
    // Every bad row is to be seen here, not only the first.
    const spec = { ...specOf(config, flags), ...fetching(config.dataset), skipBadRows: true };
    const view = await runView(config, flags, fetching(config.dataset));
    const run = view === null || 'refused' in view ? null : view;
    const dataset = (flags.eval === true ? run?.evalData : run?.whole) ?? (await loadDataset(spec));
    const { rows, sample } = flags;
    const report = await reportOn(dataset, { config, tokenizer, rows, sample, signal });
    // Held out are only problems whose gold answer can be read.
    const dropped = spec.dropUnparsedGold === true || (flags.eval === true && (run?.heldOut ?? 0) > 0);
    const split = splitOf(view);
    process.stdout.write(
      flags.json === true
        ? `${JSON.stringify({ ...report, goldDropped: dropped, ...split })}\n`
        : reportText({ ...report, ...split }, dropped, config.maxPromptLength),
    );
    const bad = report.badRows?.count ?? 0;
    if (bad > 0 && !config.skipBadRows) {
      throw new AcoerError(
        'BAD_INPUT',
        `${bad} rows cannot be read; mend them, or leave them out with --set skipBadRows=true.`,
      );
    }
  });
}

export const define: CommandModule['define'] = (command: Command) => {
  command
    .argument('[name]', 'a known name, org/name on the hub, a file or a folder; without it, the known names')
    .option('--config <file>', 'settings of a run: its data, columns, filters and prompt template')
    .option('--set <path=value>', 'one setting, e.g. --set columns.problem=task (repeatable)', collect, [])
    .option('--eval', 'the data of evaluation, not of training')
    .option('--split <name>', 'a split by its name')
    .option('--subset <name>', 'a configuration of the data set, as the hub names it')
    .addOption(
      new Option('--rows <rows>', 'problems to show: 3 for the first three, or 5,9 or 10-12')
        .argParser(rowList)
        .default([0, 1, 2], '3'),
    )
    .option('--model <model>', "whose tokenizer and chat template to use (default: the configuration's)")
    .option('--no-tokens', 'no tokenizer: lengths in characters')
    .option('--sample <n>', 'prompts to measure, spread evenly; 0: all', integer(0), 10_000)
    .option('--json', 'one JSON object instead of text')
    .action(dataCommand);
};
