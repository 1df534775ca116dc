/** What is pushed of a run, of an exported folder or of a GGUF file: only files that are named here, each looked through. */
import { existsSync, statSync } from 'node:fs';
import { basename, join } from 'node:path';
import { badInput, badUsage } from '../base/errors';
import { isRecord } from '../base/json';
import { MAX_TEXT_BYTES } from '../base/regular-file';
import { packageVersion } from '../base/version';
import { looksLikeHubId, type PushedFile, pushTarget, splitRevision } from '../hub';
import { baseModelOf } from '../life/base-model';
import { type ModelFetchOptions, resolveShape, resolveTokenizer } from '../models';
import {
  jsonText,
  modelConfig,
  readJsonFile,
  readRunFile,
  RunDirectory,
  TOKENIZER_FILES,
  trainedFolder,
} from '../run';
import { cardFields, ggufCard, pushedCard } from './card';
import { checkedGguf, checkedSafetensors, type Weights } from './checks';
import { checkTokenNumbers, publishedFields, publishedJson } from './fields';
import { publishedMetrics, publishedSettings } from './run-files';

export interface ContentOptions extends ModelFetchOptions {
  /** The repository, and its branch. */
  id: string;
  branch: string;
  /** Of a checkpoint; null: `final/`, or the newest checkpoint of a run that has not ended. */
  step: number | null;
  /** `org/name` of the base model, in place of what the run has recorded; null: that. */
  baseModel: string | null;
  /** Adds the run's metrics and settings. */
  withRun: boolean;
}

export interface PushContent {
  kind: 'adapter' | 'model' | 'gguf';
  files: PushedFile[];
  /** Fields and settings that are not published, as `file: field`. */
  leftOut: string[];
  /** The commit's title. */
  message: string;
}

const ADAPTER = { config: 'adapter_config.json', weights: 'adapter_model.safetensors' };
const MODEL = { config: 'config.json', weights: 'model.safetensors' };
const RUN_FOLDERS = ['checkpoints', 'final'];

const isFile = (path: string): boolean => statSync(path, { throwIfNoEntry: false })?.isFile() === true;

/** A folder with weights, and where the rest of what belongs to them is. */
interface Result {
  kind: 'adapter' | 'model';
  weights: string;
  /** Of the adapter or the model; null: made from the base model's. */
  config: string | null;
  step: number | null;
  /** Path of a card of these weights, or of others of the run. */
  card: string;
  evaluated: boolean;
  tokenizer: string;
  run: RunDirectory | null;
  /** As the run names it; null: not known. */
  modelName: string | null;
}

const modelNameOf = (run: RunDirectory): string | null => {
  const { model } = run.settings() as { model?: unknown };
  return typeof model === 'string' ? model : null;
};

async function resultOf(path: string, options: ContentOptions): Promise<Result> {
  const isRun = isFile(join(path, 'config.json')) && RUN_FOLDERS.some((name) => existsSync(join(path, name)));
  const run = isRun ? new RunDirectory(path) : null;
  if (run === null && options.step !== null) throw badUsage(`--step is for a run; ${path} is none.`);
  if (run === null && options.withRun) throw badUsage(`--with-run is for a run; ${path} is none.`);
  const folder = run === null ? path : trainedFolder(run, options.step);
  const kind = isFile(join(folder, ADAPTER.weights)) ? 'adapter' : 'model';
  const { config, weights } = kind === 'adapter' ? ADAPTER : MODEL;
  const has = (name: string): boolean => isFile(join(folder, name));
  if (!has(weights) || (run === null && !has(config))) {
    throw badInput(
      `${path} is neither a run, nor a folder with the result of one or of acoer export --merge, nor a .gguf file.`,
    );
  }
  const complete = has('README.md') || run === null;
  const modelName = run === null ? null : modelNameOf(run);
  const near = complete ? folder : run.final();
  return {
    ...{ kind, run, modelName },
    weights: join(folder, weights),
    config: has(config) ? join(folder, config) : null,
    step: baseModelOf(folder)?.step ?? stepOfExport(folder) ?? options.step,
    card: join(near, 'README.md'),
    evaluated: complete,
    tokenizer: existsSync(near) ? near : await resolveTokenizer(modelName ?? '', options),
  };
}

/** The step in export.json. */
function stepOfExport(folder: string): number | null {
  const path = join(folder, 'export.json');
  if (!isFile(path)) return null;
  const report = readJsonFile(path);
  return isRecord(report) && Number.isSafeInteger(report.step) ? (report.step as number) : null;
}

const fileOf = (path: string, content: Uint8Array): PushedFile => ({ path, bytes: content.length, content });

/** The files of tokenizer, chat template and generation settings. */
function tokenizerFiles(folder: string, leftOut: string[]): PushedFile[] {
  return TOKENIZER_FILES.filter((name) => isFile(join(folder, name))).map((name) => {
    const path = join(folder, name);
    const bytes = readRunFile(path, MAX_TEXT_BYTES);
    if (!name.endsWith('.json')) return fileOf(name, bytes);
    if (name === 'vocab.json' || name === 'added_tokens.json') {
      checkTokenNumbers(path, bytes);
      return fileOf(name, bytes);
    }
    const published = publishedJson(name, path, bytes);
    leftOut.push(...published.leftOut.map((field) => `${name}: ${field}`));
    return fileOf(name, published.text);
  });
}

const isOnHub = (name: unknown): name is string => typeof name === 'string' && looksLikeHubId(name);

/** adapter_config.json with a base model that others can find. @throws BAD_INPUT */
function adapterConfigFile(path: string, baseModel: string | null, leftOut: string[]): PushedFile {
  const stored = readJsonFile(path);
  if (!isRecord(stored)) throw badInput(`${path} is not a JSON object; nothing was pushed.`);
  const { base_model_name_or_path: named, ...rest } = stored;
  if (baseModel === null && !isOnHub(named)) {
    throw badInput(
      `${path} names the base model by a place that only this machine has (${String(named)}); give the base model's name on the hub with --base-model ORG/NAME, or push a whole model: acoer export RUN --merge OUT.`,
    );
  }
  const { kept, leftOut: others } = publishedFields(ADAPTER.config, rest);
  leftOut.push(...others.map((field) => `${ADAPTER.config}: ${field}`));
  const { id, revision = null } = splitRevision(baseModel ?? (named as string));
  const known: Record<string, unknown> = {
    ...kept,
    base_model_name_or_path: id,
    ...(baseModel !== null && { revision }),
  };
  // In the order of what was written.
  const fields = Object.keys(stored)
    .filter((name) => Object.hasOwn(known, name))
    .map((name) => [name, known[name]]);
  return fileOf(ADAPTER.config, Buffer.from(jsonText(Object.fromEntries(fields))));
}

const TYPES: Readonly<Record<string, string>> = {
  F32: 'float32',
  F64: 'float64',
  BF16: 'bfloat16',
  F16: 'float16',
};

/** config.json of a model: its own, or for a checkpoint the base model's with the type of the weights. */
async function modelConfigFile(
  { config, modelName }: Result,
  { dtype }: Weights,
  leftOut: string[],
  options: ContentOptions,
): Promise<PushedFile> {
  const bytes =
    config === null
      ? Buffer.from(modelConfig(await resolveShape(modelName ?? '', options), TYPES[dtype] ?? 'float32'))
      : readRunFile(config, MAX_TEXT_BYTES);
  const published = publishedJson(MODEL.config, config ?? MODEL.config, bytes);
  leftOut.push(...published.leftOut.map((field) => `${MODEL.config}: ${field}`));
  return fileOf(MODEL.config, published.text);
}

/** `org/name` of the base model; null: nobody else can find it. */
function publicBase(
  { kind, config, modelName }: Result,
  card: string,
  baseModel: string | null,
): string | null {
  const recorded =
    kind === 'adapter'
      ? (readJsonFile(config!) as { base_model_name_or_path?: unknown }).base_model_name_or_path
      : (modelName ?? cardFields(card).base_model);
  const name = baseModel ?? recorded;
  return isOnHub(name) ? splitRevision(name).id : null;
}

/** `run/metrics.jsonl` and `run/config.json`. */
function runFiles(run: RunDirectory, leftOut: string[]): PushedFile[] {
  const { kept, leftOut: settings } = publishedSettings(run.settings());
  leftOut.push(...settings.map((name) => `run/config.json: ${name}`));
  const metrics = existsSync(run.metrics())
    ? [
        fileOf(
          'run/metrics.jsonl',
          Buffer.from(publishedMetrics(readRunFile(run.metrics(), MAX_TEXT_BYTES).toString('utf8'))),
        ),
      ]
    : [];
  return [...metrics, fileOf('run/config.json', Buffer.from(jsonText(kept)))];
}

const MAX_CARD_BYTES = 1 << 20;

async function resultContent(path: string, options: ContentOptions): Promise<PushContent> {
  const result = await resultOf(path, options);
  const { kind, run, step } = result;
  const { id, branch, baseModel } = options;
  const leftOut: string[] = [];
  const weights = await checkedSafetensors(result.weights);
  const source = isFile(result.card) ? readRunFile(result.card, MAX_CARD_BYTES).toString('utf8') : '';
  const config =
    kind === 'adapter'
      ? adapterConfigFile(result.config!, baseModel, leftOut)
      : await modelConfigFile(result, weights, leftOut, options);
  const base = publicBase(result, source, baseModel);
  const card = pushedCard({ id, branch, kind, base, step, source, evaluated: result.evaluated });
  const files = [
    fileOf('README.md', Buffer.from(card)),
    config,
    { path: basename(result.weights), bytes: weights.bytes, content: result.weights },
    ...tokenizerFiles(result.tokenizer, leftOut),
    ...(run !== null && options.withRun ? runFiles(run, leftOut) : []),
  ];
  const what = kind === 'adapter' ? 'LoRA adapter' : 'Model';
  const at = step === null ? '' : ` after ${step} steps`;
  return { kind, files, leftOut, message: `${what}${at}, from acoer ${packageVersion()}` };
}

async function ggufContent(
  path: string,
  { id, baseModel, step, withRun }: ContentOptions,
): Promise<PushContent> {
  if (step !== null || withRun) {
    throw badUsage(`--step and --with-run are for a run; ${path} is a file.`);
  }
  const { bytes, lora } = await checkedGguf(path);
  const name = basename(path);
  const base = baseModel === null ? null : splitRevision(baseModel).id;
  const card = Buffer.from(ggufCard({ id, base }, name, lora));
  return {
    kind: 'gguf',
    files: [
      // Beside other weights the repository has a card that says more.
      { ...fileOf('README.md', card), onlyIfMissing: true },
      { path: name, bytes, content: path },
    ],
    leftOut: [],
    message: `GGUF file ${name}, from acoer ${packageVersion()}`,
  };
}

/**
 * @param path folder of a run, of its result or of `acoer export --merge`, or a .gguf file
 * @throws BAD_INPUT and BAD_FILE for what cannot be published, BAD_CONFIG for options that do not fit; HUB
 */
export async function pushContent(path: string, options: ContentOptions): Promise<PushContent> {
  const { baseModel } = options;
  pushTarget(options.id, options.branch);
  if (baseModel !== null && !looksLikeHubId(baseModel)) {
    throw badUsage(`--base-model is ${baseModel}; it must be a name on the hub, as ORG/NAME.`);
  }
  if (!existsSync(path))
    throw badInput(`There is no ${path}; name a run, an exported folder or a .gguf file.`);
  return path.endsWith('.gguf') && isFile(path) ? ggufContent(path, options) : resultContent(path, options);
}

/**
 * Adapter and model in one repository are refused: transformers would load the adapter on its base, whatever else is there.
 * @param paths what the repository has
 * @throws BAD_INPUT
 */
export function checkBeside(kind: PushContent['kind'], id: string, paths: readonly string[]): void {
  const other = { adapter: MODEL.weights, model: ADAPTER.config, gguf: null }[kind];
  if (other === null || !paths.includes(other)) return;
  throw badInput(
    `${id} already holds ${other}, and transformers would load one of the two in place of the other; push to another repository or --branch, or delete it there first.`,
  );
}
