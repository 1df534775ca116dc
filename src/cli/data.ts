/** `acoer data`: shows a data set as training or evaluation will see it, or what of a benchmark is in it. */
import { type Command, InvalidArgumentError, Option } from 'commander';
import { mergeLayers, parseAssignments, readConfigFile, resolveConfig, type Config } from '../config';
import {
  type DatasetSpec,
  EMBEDDED_TASKS,
  evalSpec,
  isEmbeddedTask,
  isLocal,
  KNOWN_DATASETS,
  loadDataset,
  loadRunData,
  overlapOf,
  overlapText,
  type RunData,
  trainSpec,
} from '../data';
import { badInput, badUsage, errorCode, errorMessage } from '../base/errors';
import { printableLine } from '../base/printable';
import { type ModelFetchOptions, resolveTokenizer } from '../models';
import { loadTokenizer } from '../tokenizer';
import { integer, repeatable } from './command';
import { type DataReport, reportOn } from './data-report';
import { reportText } from './data-text';
import { showDownload } from './download';
import { interruptible } from './interrupt';
import { alignTable } from './table';
import { printJsonLine, printText } from './output';

interface DataFlags {
  config?: string;
  set: string[];
  eval?: boolean;
  split?: string;
  subset?: string;
  rows: number[];
  model?: string;
  /** Set by --no-tokens. */
  tokens: boolean;
  sample: number;
  against?: string;
  json?: boolean;
}

/** `3`: the first three; `5,9` or `10-12`: these rows, counted from 1. */
function rowList(text: string): number[] {
  if (/^\d+$/.test(text)) return Array.from({ length: Number(text) }, (_, i) => i);
  return text.split(',').flatMap((part) => {
    const [, from, to = from] = /^\s*([1-9]\d*)(?:-([1-9]\d*))?\s*$/.exec(part) ?? [];
    const length = Number(to) - Number(from) + 1;
    if (from === undefined || length < 1) {
      throw new InvalidArgumentError(
        'Give a number n (the first n) or rows counted from 1, such as 5,9 or 10-12.',
      );
    }
    return Array.from({ length }, (_, i) => Number(from) - 1 + i);
  });
}

function knownNames(): string {
  const known = Object.entries(KNOWN_DATASETS).map(([name, { repo, summary }]) => [name, repo, summary]);
  const embedded = Object.entries(EMBEDDED_TASKS).map(([name, { summary }]) => [name, '', summary]);
  return [
    'Known data sets:',
    ...alignTable([...embedded, ...known], 3).map((line) => `  ${line}`),
    'Also accepted: org/name on the Hugging Face hub, a file, or a folder of files.',
  ].join('\n');
}

/** The run's configuration with the data set named on the command line. */
function configOf(name: string | undefined, flags: DataFlags): Config {
  const { split: datasetSplit, subset: datasetConfig, model } = flags;
  const set = name === undefined ? {} : { dataset: name, evalDataset: null };
  const named = { ...set, datasetSplit, datasetConfig, model };
  const file = flags.config === undefined ? [] : [readConfigFile(flags.config)];
  const layers = [...file, named, parseAssignments(flags.set)];
  const { model: given, preset } = mergeLayers(layers);
  // As `train` chooses it, except that data is looked at for a real model where none is named.
  const open = flags.config === undefined && given === undefined && preset === undefined;
  return resolveConfig(layers, open && !(name !== undefined && isEmbeddedTask(name)) ? 'paper' : undefined);
}

/** Sets that exist for evaluation only are shown as evaluation data. */
function specOf(config: Config, flags: DataFlags): DatasetSpec {
  if (flags.eval === true && config.evalDataset !== null) return evalSpec(config);
  const plain = config.dataset.split('@')[0]!;
  const evaluationOnly = Object.hasOwn(KNOWN_DATASETS, plain) && KNOWN_DATASETS[plain]!.trainSplit === null;
  if (flags.eval !== true && !evaluationOnly) return trainSpec(config);
  return { ...trainSpec(config), split: 'eval', dropUnparsedGold: false };
}

/**
 * The data as a run would split it into training and evaluation, or the reason a run would reject it. Null
 * when a single split is shown, and for hub data named without a configuration: showing it should not
 * download the evaluation split.
 */
async function runView(config: Config, flags: DataFlags, options: ModelFetchOptions) {
  if (flags.split !== undefined || (flags.config === undefined && !isLocal(config.dataset))) return null;
  try {
    return await loadRunData({ ...config, skipBadRows: true }, {}, options);
  } catch (error) {
    // Show the data even so, including the rows that cause the problem.
    if (errorCode(error) !== 'BAD_CONFIG') throw error;
    return { refused: `a run would reject this data: ${errorMessage(error)}` };
  }
}

/** How many problems a run would train and evaluate on, and why not on all of them. */
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
    throw badInput(
      `${errorMessage(error)} Prompt lengths are counted in tokens of ${config.model}: name another model with --model, or count characters with --no-tokens.`,
      error,
    );
  }
}

/** Matches that are named; --json has all of them. */
const SHOWN_MATCHES = 5;

/** Which problems of `benchmark` are also in the training data. */
async function compareWith(benchmark: string, config: Config, flags: DataFlags): Promise<void> {
  if (flags.eval === true) {
    throw badUsage('--against compares the training data with a benchmark: remove --eval.');
  }
  await interruptible(async (signal) => {
    const load = (spec: DatasetSpec) =>
      loadDataset({ ...spec, keepRows: false, ...showDownload(spec.name, signal), skipBadRows: true });
    const training = await load(specOf(config, flags));
    const { seed } = config;
    const evaluated = await load({ name: benchmark, split: 'eval', seed, dropUnparsedGold: false });
    const overlap = await overlapOf(evaluated, training, signal);
    if (flags.json === true)
      return printJsonLine({ training: training.name, against: benchmark, ...overlap });
    const { exact, near } = overlap;
    const lines = (['exact', 'near'] as const).flatMap((kind) =>
      overlap[kind]
        .slice(0, SHOWN_MATCHES)
        .map(({ id, trainingId }) =>
          printableLine(`  ${id}: ${kind === 'near' ? 'nearly ' : ''}training row ${trainingId}`, 200),
        ),
    );
    const more = exact.length + near.length - lines.length;
    const rest = more > 0 ? [`  and ${more} more; --json lists all`] : [];
    printText([overlapText(benchmark, overlap), ...lines, ...rest].join('\n'));
  });
}

async function dataCommand(name: string | undefined, flags: DataFlags): Promise<void> {
  if (name === undefined && flags.config === undefined) {
    if (flags.against !== undefined)
      throw badUsage('--against needs the training data: name it, or give --config.');
    printText(knownNames());
    return;
  }
  if (flags.against !== undefined) return compareWith(flags.against, configOf(name, flags), flags);
  const config = configOf(name, flags);
  await interruptible(async (signal) => {
    const fetching = (what: string) => showDownload(what, signal);
    // Report every bad row here, not only the first.
    const spec = { ...specOf(config, flags), ...fetching(config.dataset), skipBadRows: true };
    const view = await runView(config, flags, fetching(config.dataset));
    const run = view === null || 'refused' in view ? null : view;
    const dataset = (flags.eval === true ? run?.evalData : run?.whole) ?? (await loadDataset(spec));
    // After the data: a name that is wrong should not cost the download of a tokenizer.
    const tokenizer = await openTokenizer(config, flags, fetching(config.model));
    const { rows, sample } = flags;
    const report = await reportOn(dataset, { config, tokenizer, rows, sample, signal });
    // Only problems whose gold answer can be parsed are held out for evaluation.
    const dropped = spec.dropUnparsedGold === true || (flags.eval === true && (run?.heldOut ?? 0) > 0);
    const split = splitOf(view);
    const notices = [...(report.notices ?? []), ...(split.notices ?? [])];
    const shown = { ...report, ...split, ...(notices.length > 0 && { notices }) };
    if (flags.json === true) printJsonLine({ goldDropped: dropped, ...shown });
    else printText(reportText(shown, dropped, config.maxPromptLength).trimEnd());
    const bad = report.badRows?.count ?? 0;
    if (bad > 0 && !config.skipBadRows) {
      throw badInput(`${bad} rows cannot be read; fix them, or skip them with --set skipBadRows=true.`);
    }
  });
}

export function define(command: Command): void {
  command
    .argument(
      '[name]',
      'a known name, org/name on the hub, a file or a folder; if omitted, lists the known names',
    )
    .option('--config <file>', 'configuration of a run, for its data, columns, filters and prompt template')
    .addOption(repeatable('--set <path=value>', 'override a setting, e.g. --set columns.problem=task'))
    .option('--eval', 'show the evaluation data instead of the training data')
    .option('--split <name>', 'name of the split')
    .option('--subset <name>', 'configuration of the data set, by its name on the hub')
    .addOption(
      new Option('--rows <rows>', 'problems to show: 3 for the first three, or 5,9 or 10-12')
        .argParser(rowList)
        .default([0, 1, 2], '3'),
    )
    .option(
      '--model <model>',
      "model whose tokenizer and chat template to use (default: the configuration's)",
    )
    .option('--no-tokens', 'use no tokenizer and count lengths in characters')
    .option('--sample <n>', 'number of prompts to measure, evenly spread; 0: all', integer(0), 10_000)
    .option(
      '--against <benchmark>',
      'how many problems of this data set are also in the training data, exactly or nearly',
    )
    .option('--json', 'print one JSON object instead of text')
    .action(dataCommand);
}
