/** Datasets by name or path, with random access: the order of training is the loop's business. */
import { AcoerError } from '../errors';
import type { Problem } from '../types';
import { readJsonLines } from './jsonl';
import { tinyDataset } from './tiny/dataset';

export interface Dataset {
  readonly name: string;
  readonly size: number;
  /** The same problem for the same index, always. 0 <= index < size. */
  get(index: number): Problem;
}

export interface DatasetSpec {
  /** `tiny`, or the path of a JSON Lines file (.jsonl). */
  name: string;
  split: 'train' | 'eval';
  /** Names the stream of generated training data; files and evaluation splits ignore it. */
  seed: number;
}

/** Refuses indices outside the dataset: an undefined problem would surface far from its cause. */
function guarded(dataset: Dataset): Dataset {
  return {
    ...dataset,
    get: (index) => {
      if (Number.isInteger(index) && index >= 0 && index < dataset.size) return dataset.get(index);
      throw new AcoerError(
        'BAD_ARGUMENT',
        `Dataset ${dataset.name} has rows 0..${dataset.size - 1}, not ${index}`,
      );
    },
  };
}

export async function loadDataset({ name, split, seed }: DatasetSpec): Promise<Dataset> {
  if (name === 'tiny') return guarded(tinyDataset(split, seed));
  if (/\.(jsonl|ndjson|json)$/.test(name)) return guarded(await readJsonLines(name));
  throw new AcoerError(
    'BAD_CONFIG',
    `Unknown dataset "${name}": use "tiny", or the path of a .jsonl file with lines {"question", "answer"}`,
  );
}
