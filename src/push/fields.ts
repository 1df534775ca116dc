/**
 * Which fields of a model's JSON files are published. Numbers and switches of any name are: other programs compute with
 * them, and nobody keeps a secret in them. Text only under names that are listed here, since tools write folders, hosts
 * and whole settings under others (`_name_or_path`, `name_or_path`, `tokenizer_file`).
 */
import { badInput } from '../base/errors';
import { isRecord, type JsonRecord } from '../base/json';
import { jsonText } from '../run';

interface Fields {
  /** Their text is part of what the file is for: tokens, templates, rules of splitting. */
  whole?: readonly string[];
  /** Their text is names and numbers, such as `silu`; what is neither is left out. */
  words?: readonly string[];
}

const IDS = ['bos_token_id', 'eos_token_id', 'pad_token_id'];
const TOKENS = [
  ...['bos_token', 'eos_token', 'pad_token', 'unk_token', 'cls_token', 'sep_token', 'mask_token'],
  ...['additional_special_tokens', 'extra_special_tokens', 'image_token', 'audio_token', 'video_token'],
];

const FIELDS: Readonly<Record<string, Fields>> = {
  'config.json': {
    words: [
      ...['architectures', 'model_type', 'hidden_act', 'torch_dtype', 'dtype', 'transformers_version'],
      ...['layer_types', 'rope_scaling', 'rope_parameters', ...IDS],
    ],
  },
  'generation_config.json': {
    words: ['cache_implementation', 'suppress_tokens', 'transformers_version', ...IDS],
  },
  'tokenizer_config.json': {
    whole: ['added_tokens_decoder', 'chat_template', 'response_template', ...TOKENS],
    words: [
      ...['backend', 'errors', 'model_input_names', 'padding_side', 'truncation_side', 'truncation_strategy'],
      ...['model_max_length', 'processor_class', 'sp_model_kwargs', 'tokenizer_class'],
    ],
  },
  'special_tokens_map.json': { whole: TOKENS },
  'tokenizer.json': {
    whole: [
      ...['version', 'truncation', 'padding', 'added_tokens', 'normalizer', 'pre_tokenizer'],
      ...['post_processor', 'decoder', 'model'],
    ],
  },
  'adapter_config.json': {
    words: [
      ...[
        'peft_type',
        'task_type',
        'bias',
        'peft_version',
        'megatron_core',
        'init_lora_weights',
        'loftq_config',
      ],
      ...['target_modules', 'exclude_modules', 'rank_pattern', 'alpha_pattern', 'layers_pattern'],
      ...['layers_to_transform', 'revision'],
    ],
  },
};

const WORD = /^[\w.+-]{1,200}$/;

const isScalar = (value: unknown): boolean =>
  value === null || typeof value === 'number' || typeof value === 'boolean';

/** Whether all text in `value`, names of fields included, is single words: no folder, address or sentence. */
export const isWords = (value: unknown): boolean => {
  if (isScalar(value)) return true;
  if (typeof value === 'string') return WORD.test(value);
  if (Array.isArray(value)) return value.every(isWords);
  return isRecord(value) && Object.entries(value).every(([name, inner]) => WORD.test(name) && isWords(inner));
};

/** JSON as `jsonText`, with whole numbers beyond 2^53 in digits: Python reads 1e+30 as a fraction. */
function exactJson(value: unknown): string {
  const marked = JSON.parse(JSON.stringify(value), (_, inner: unknown) =>
    typeof inner === 'number' && Math.abs(inner) >= 1e21 ? `\0${BigInt(inner)}` : inner,
  ) as unknown;
  return jsonText(marked).replace(/"\\u0000(-?\d+)"/g, '$1');
}

export interface Published {
  text: Buffer;
  /** Names of the fields that were left out. */
  leftOut: string[];
}

/** The fields of a file called `name` that are published. */
export function publishedFields(name: string, record: JsonRecord): { kept: JsonRecord; leftOut: string[] } {
  const { whole = [], words = [] } = FIELDS[name]!;
  const isKept = ([field, value]: [string, unknown]) =>
    whole.includes(field) ||
    (WORD.test(field) && (isScalar(value) || (words.includes(field) && isWords(value))));
  const entries = Object.entries(record);
  const kept = entries.filter(isKept);
  const leftOut = entries.filter((entry) => !isKept(entry)).map(([field]) => field);
  return { kept: Object.fromEntries(kept), leftOut };
}

/**
 * What is published of the JSON file at `path`, called `name`: its own bytes if that is all of it.
 * @throws BAD_INPUT
 */
export function publishedJson(name: string, path: string, bytes: Buffer): Published {
  let record: unknown;
  try {
    record = JSON.parse(bytes.toString('utf8'));
  } catch (cause) {
    throw badInput(`${path} is not valid JSON; it is left as it is, and nothing was pushed.`, cause);
  }
  if (!isRecord(record)) throw badInput(`${path} is not a JSON object; nothing was pushed.`);
  const { kept, leftOut } = publishedFields(name, record);
  return { text: leftOut.length === 0 ? bytes : Buffer.from(exactJson(kept)), leftOut };
}

/** For files that map tokens to numbers. @throws BAD_INPUT */
export function checkTokenNumbers(path: string, bytes: Buffer): void {
  const record: unknown = JSON.parse(bytes.toString('utf8'));
  if (isRecord(record) && Object.values(record).every(Number.isSafeInteger)) return;
  throw badInput(`${path} does not map tokens to numbers; nothing was pushed.`);
}
