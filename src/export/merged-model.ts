/** `acoer export --merge`: a run as one model, in a folder in Hugging Face's layout. */
import { existsSync, writeFileSync } from 'node:fs';
import { dirname, join, resolve } from 'node:path';
import { badUsage } from '../base/errors';
import { makeFolders } from '../base/folders';
import type { Dtype, ExportingEngine, MergedMatrix } from '../engine/types';
import { copyTokenizer, jsonText, modelConfig, writeDirectoryAtomic } from '../run';
import { mergedCard } from './card';
import { type StoredType, writeMergedWeights } from './merge';
import { proved, type Proved, type ProvingOptions } from './prove';
import type { ExportSource } from './source';

export interface MergeOptions extends ProvingOptions {
  /** A folder that is not there yet. */
  out: string;
  type: StoredType;
}

export interface MergeReport extends Proved {
  out: string;
  type: StoredType;
  step: number;
  /** Empty if all weights were trained. */
  matrices: MergedMatrix[];
}

/** @throws BAD_CONFIG for a folder that exists, and what reading, computing and writing throw; nothing is left then */
export async function exportMerged(
  engine: ExportingEngine,
  source: ExportSource,
  { out, type, ...options }: MergeOptions,
): Promise<MergeReport> {
  const path = resolve(out);
  const { signal } = options;
  if (existsSync(path)) throw badUsage(`${out} exists; name a new folder, or remove it.`);
  makeFolders(dirname(path));
  let report: MergeReport | undefined;
  await writeDirectoryAtomic(path, async (directory) => {
    const write = async () => {
      writeFileSync(join(directory, 'config.json'), modelConfig(source.model, type));
      copyTokenizer(source.model, directory);
      return { matrices: await writeMergedWeights(engine, source, directory, type, signal) };
    };
    const load = async (dtype: Dtype) => ({
      model: await engine.loadModel(directory, { dtype, signal }),
      policy: null,
    });
    const facts = await proved(engine, source, write, load, options);
    report = { out: path, type, step: source.step, ...facts };
    const { out: _, ...told } = report;
    writeFileSync(join(directory, 'export.json'), jsonText(told));
    writeFileSync(join(directory, 'README.md'), mergedCard(source, report));
  });
  return report!;
}
