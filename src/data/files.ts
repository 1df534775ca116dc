/** Which files of a data set's folder make up a split: according to its card, else to its paths. */
import picomatch from 'picomatch';
import { badInput, badUsage, errorMessage, unreadable } from '../base/errors';
import { groupBy } from '../base/group-by';
import { isRecord } from '../base/json';
import { readRegularFile } from '../base/regular-file';
import { parseYaml } from '../base/yaml';
import { FORMAT_NAMES, isDataFile } from './open';

export interface SplitChoice {
  /** A configuration ("subset") of the data set; `*` means all that have the split, null the default one. */
  config: string | null;
  /** Names of splits in order of preference; the first that exists is used. */
  splits: readonly string[];
  /** If none of `splits` exists and there is only one split, use that. */
  orOnly: boolean;
  /** If none of `splits` exists, choose none instead of throwing. Default false. */
  orNone?: boolean;
}

export interface ChosenFiles {
  /** Paths relative to the folder, sorted. */
  files: string[];
  split: string;
}

/** Files of one split of one configuration. */
interface SplitFiles {
  config: string;
  split: string;
  files: string[];
}

/** Words that name a split in a path, as in the `datasets` library. */
const SPLIT_WORDS: ReadonlyMap<string, string> = new Map(
  Object.entries({
    train: ['train', 'training'],
    validation: ['validation', 'valid', 'dev', 'val'],
    test: ['test', 'testing', 'eval', 'evaluation'],
  }).flatMap(([split, words]) => words.map((word) => [word, split])),
);

/** A path's split: `train-00000-of-00002`, `<split>/0000.parquet`, or a word in a file's or folder's name. */
function splitOf(path: string): string {
  const parts = path.split('/').reverse();
  const shard = /^([\w.]+)-\d{5}-of-\d{5}/.exec(parts[0]!)?.[1];
  if (shard !== undefined) return SPLIT_WORDS.get(shard) ?? shard;
  if (/^\d{4}\.parquet$/.test(parts[0]!) && parts.length > 1) return parts[1]!.replace(/^partial-/, '');
  for (const part of parts) {
    const splits = part.split(/[-._ 0-9]+/).map((word) => SPLIT_WORDS.get(word.toLowerCase()));
    const split = splits.find((found) => found !== undefined);
    if (split !== undefined) return split;
  }
  return 'train';
}

function bySplit(config: string, files: readonly string[]): SplitFiles[] {
  return [...groupBy(files, splitOf)].map(([split, own]) => ({ config, split, files: own }));
}

type Card = Record<string, unknown>;

const MAX_CARD_BYTES = 1 << 22;

/** A data set's README.md. @throws BAD_INPUT naming the file */
export async function readCard(path: string): Promise<string> {
  try {
    return (await readRegularFile(path, MAX_CARD_BYTES)).toString('utf8');
  } catch (cause) {
    throw unreadable(path, cause);
  }
}

const isText = (value: unknown): value is string => typeof value === 'string';

function asList(value: unknown): unknown[] {
  if (value === undefined || value === null) return [];
  return Array.isArray(value) ? value : [value];
}

/** The `data_files` of a card: patterns, or patterns by split. */
function cardSplits(
  config: string,
  directory: string,
  dataFiles: unknown,
  paths: readonly string[],
): SplitFiles[] {
  const matching = (patterns: readonly string[]) => {
    const wanted = patterns.map((pattern) => directory + pattern.replace(/^\.\//, ''));
    const matches = picomatch(wanted.filter((pattern) => pattern !== ''));
    return paths.filter((path) => matches(path));
  };
  const entries = asList(dataFiles);
  if (entries.every(isText)) return bySplit(config, matching(entries));
  return entries.filter(isRecord).flatMap((entry) => {
    const { split, path } = entry;
    const pairs: [string, unknown][] = isText(split) ? [[split, path]] : Object.entries(entry);
    return pairs.map(([name, patterns]) => ({
      config,
      split: name,
      files: matching(asList(patterns).filter(isText)),
    }));
  });
}

/** The YAML between the card's leading `---` lines. */
function frontMatter(readme: string): Card {
  const yaml = /^\ufeff?---\r?\n([^]*?)\r?\n---/.exec(readme)?.[1];
  const refusal = (fault: unknown) =>
    badInput(`the data set's README.md has invalid YAML: ${errorMessage(fault)}`, fault);
  return ((yaml === undefined ? null : parseYaml(yaml, refusal, 'ignore')) ?? {}) as Card;
}

interface Layout {
  splits: SplitFiles[];
  /** The configuration to use when none is given; null when that is ambiguous. */
  defaultConfig: string | null;
}

/** The layout in the card's `configs`, or null when they name no files. */
function layoutOfCard(readme: string | null, paths: readonly string[]): Layout | null {
  const configs = asList(frontMatter(readme ?? '').configs)
    .filter(isRecord)
    .filter(({ data_files, data_dir }) => data_files !== undefined || data_dir !== undefined);
  if (configs.length === 0) return null;
  const nameOf = ({ config_name }: Card) => (typeof config_name === 'string' ? config_name : 'default');
  const splits = configs.flatMap((config) => {
    const directory =
      typeof config.data_dir === 'string'
        ? `${config.data_dir.replace(/^\.\//, '').replace(/\/$/, '')}/`
        : '';
    return cardSplits(nameOf(config), directory, config.data_files ?? '**', paths);
  });
  const chosen =
    configs.find((config) => config.default === true) ??
    configs.find((config) => nameOf(config) === 'default') ??
    (configs.length === 1 ? configs[0] : undefined);
  return { splits, defaultConfig: chosen === undefined ? null : nameOf(chosen) };
}

/**
 * The layout without a card: `data/` or files at the top are the default configuration; other folders are
 * configurations, unless they name splits.
 */
function layoutOfPaths(paths: readonly string[]): Layout {
  const topOf = (path: string) => (path.includes('/') ? path.slice(0, path.indexOf('/')) : '');
  const isPlain = (top: string) => top === '' || top === 'data' || SPLIT_WORDS.has(top.toLowerCase());
  const byConfig = groupBy(paths, (path) => (isPlain(topOf(path)) ? 'default' : topOf(path)));
  const names = [...byConfig.keys()];
  return {
    splits: [...byConfig].flatMap(([config, files]) => bySplit(config, files)),
    defaultConfig: names.includes('default') ? 'default' : names.length === 1 ? names[0]! : null,
  };
}

const listed = (names: Iterable<string>) => [...new Set(names)].sort().join(', ');

/** The splits of the wanted configuration. */
function ofConfig({ splits, defaultConfig }: Layout, config: string | null, name: string): SplitFiles[] {
  if (config === '*') return splits;
  const wanted = config ?? defaultConfig;
  if (wanted === null) {
    throw badUsage(
      `${name} has several configurations; choose one of ${listed(splits.map((split) => split.config))}`,
    );
  }
  const own = splits.filter((split) => split.config === wanted);
  if (own.length > 0) return own;
  // Configurations may be single files at the top: `aime2025-I.jsonl`.
  const stem = new RegExp(`^(?:.*/)?${wanted.replace(/[^\w]/g, '\\$&')}(?:[-_.][^/]*)?$`, 'i');
  const files = splits.flatMap((split) => split.files).filter((path) => stem.test(path));
  if (files.length > 0) return bySplit(wanted, files);
  throw badUsage(
    `${name} has no configuration "${wanted}"; it has ${listed(splits.map((split) => split.config))}`,
  );
}

/** JSON files of libraries that hold no rows. */
const NOT_ROWS = /(?:^|\/)(?:dataset_infos?|dataset_dict|state|config|package|tokenizer|croissant)\.json$/;

/** Whether a file of a data set may hold rows. */
export const holdsRows = (path: string): boolean =>
  isDataFile(path) && !NOT_ROWS.test(path) && !path.split('/').some((part) => /^[._]/.test(part));

/** The same rows are often there in several formats; one is enough. */
function oneFormat(files: readonly string[]): string[] {
  const formats = [/\.parquet$/i, /\.(jsonl|ndjson)$/i, /\.json$/i, /\.csv$/i, /\.tsv$/i];
  const format = formats.find((ending) => files.some((file) => ending.test(file)));
  return [...new Set(files)].filter((file) => format === undefined || format.test(file)).sort();
}

/**
 * The files of a split; null only with `orNone`.
 * @param paths all paths of the data set, relative to its folder
 * @param readme the text of its README.md, or null
 * @param name name of the data set in messages
 */
export function chooseFiles(
  name: string,
  paths: readonly string[],
  readme: string | null,
  choice: SplitChoice,
): ChosenFiles | null {
  const dataFiles = paths.filter(holdsRows);
  if (dataFiles.length === 0) {
    throw badInput(`${name} has no data files in a supported format (${FORMAT_NAMES})`);
  }
  const sorted = [...dataFiles].sort();
  const layout = layoutOfCard(readme, sorted) ?? layoutOfPaths(sorted);
  const found = ofConfig(layout, choice.config, name).filter(({ files }) => files.length > 0);
  const existing = [...new Set(found.map(({ split }) => split))];
  const split =
    choice.splits.find((wanted) => existing.includes(wanted)) ??
    (choice.orOnly && existing.length === 1 ? existing[0] : undefined);
  if (split === undefined) {
    if (choice.orNone === true) return null;
    throw badUsage(
      `${name} has no split ${choice.splits.join(' or ')}; it has ${listed(existing) || 'none'}`,
    );
  }
  const files = found.filter((one) => one.split === split).flatMap((one) => one.files);
  return { files: oneFormat(files), split };
}
