/** The keys of a GGUF file that tell where a model comes from, as llama.cpp's own converter reads them off its card. */
import type { GgufKey } from '../models/gguf';

/** One or several texts. */
const texts = (value: unknown): string[] =>
  (Array.isArray(value) ? value : [value]).filter((one): one is string => typeof one === 'string');

/** `smollm2-instruct` -> `Smollm2 Instruct`; a word with capitals stays, and so does a version. */
const title = (name: string): string =>
  name
    .split(/[-\s]+/)
    .filter((word) => word !== '')
    .map((word) =>
      word !== word.toLowerCase() || /^(v?\d+(\.\d+)*|\d.*)$/.test(word)
        ? word
        : word.replaceAll(/\p{L}+/gu, (letters) => letters[0]!.toUpperCase() + letters.slice(1)),
    )
    .join(' ');

/** A model or data set of the hub. */
function originKeys(key: string, id: string): GgufKey[] {
  const slash = id.indexOf('/');
  const name: GgufKey = [`${key}.name`, 'string', title(id.slice(slash + 1))];
  if (slash < 1) return [name];
  return [
    name,
    [`${key}.organization`, 'string', title(id.slice(0, slash))],
    [`${key}.repo_url`, 'string', `https://huggingface.co/${id}`],
  ];
}

function originsKeys(key: string, ids: readonly string[]): GgufKey[] {
  if (ids.length === 0) return [];
  return [[`${key}.count`, 'u32', ids.length], ...ids.flatMap((id, i) => originKeys(`${key}.${i}`, id))];
}

const listKeys = (key: string, list: readonly string[]): GgufKey[] =>
  list.length === 0 ? [] : [[key, 'string[]', list]];

/** @param card its front matter */
export function cardKeys(card: Readonly<Record<string, unknown>>): GgufKey[] {
  const license = texts(card.license);
  return [
    ...(license.length === 0 ? [] : ([['general.license', 'string', license.join(',')]] satisfies GgufKey[])),
    ...(['license_name', 'license_link'] as const).flatMap((field) =>
      texts(card[field]).map((text): GgufKey => [`general.${field.replace('_', '.')}`, 'string', text]),
    ),
    ...originsKeys('general.base_model', texts(card.base_model)),
    ...originsKeys('general.dataset', texts(card.datasets)),
    ...listKeys('general.tags', [...texts(card.tags), ...texts(card.pipeline_tag)]),
    ...listKeys('general.languages', texts(card.language)),
  ];
}
