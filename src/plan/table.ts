/** One configuration on several models, cards and number types of the base. */
import type { Config } from '../config';
import type { Quantization } from '../engine/types';
import { namedDevice } from './devices';
import { marginOf, type Margin } from './margin';
import { plannedModel } from './model-shape';
import { plannedDtype, planOutlinePaced, type PlanInput } from './run';

/** Cards of 24, 48 and 80 GB. */
export const TABLE_CARDS = ['4090', 'A6000', 'H100'] as const;
/** From 1.7B to 8B. */
export const TABLE_MODELS = ['Qwen/Qwen3-1.7B', 'Qwen/Qwen3-4B', 'Qwen/Qwen3-8B'] as const;

export interface PlanTableCell {
  device: string;
  totalBytes: number;
  margin: Margin;
  /** Sequences that decode together, and those for which there is room at full length; null: none do here. */
  slots: number | null;
  fullSlots: number | null;
  /** Expected hours of the whole run; null: it does not fit. */
  hours: number | null;
}

export interface PlanTable {
  rows: { model: string; quantization: Quantization | null; dtype: string; cells: PlanTableCell[] }[];
}

async function cellOf(
  config: Config,
  card: string,
  input: Omit<PlanInput, 'config' | 'device'>,
  signal?: AbortSignal,
): Promise<PlanTableCell> {
  const device = namedDevice(card, plannedDtype(config, input.model));
  const { memory, hours } = await planOutlinePaced({ ...input, config, device }, signal);
  const kv = hours === null ? null : memory.kv;
  return {
    device: device.name,
    totalBytes: device.totalBytes,
    margin: marginOf(memory, device),
    slots: kv?.slots ?? null,
    fullSlots: kv?.fullSlots ?? null,
    hours,
  };
}

/** @param models as in `model:` of a configuration @throws the signal's reason when it aborts */
export async function planTable(
  config: Config,
  { models, cards }: { models: readonly string[]; cards: readonly string[] },
  given: Pick<PlanInput, 'promptTokens' | 'lengths' | 'ranks'>,
  signal?: AbortSignal,
): Promise<PlanTable> {
  const types: (Quantization | null)[] = config.full ? [null] : [null, 'int8', 'nf4'];
  const rows: PlanTable['rows'] = [];
  for (const name of models) {
    const model = await plannedModel(name);
    for (const quantization of types) {
      const changed = { ...config, model: name, quantization };
      const cells: PlanTableCell[] = [];
      for (const card of cards) cells.push(await cellOf(changed, card, { ...given, model }, signal));
      rows.push({ model: name, quantization, dtype: plannedDtype(changed, model), cells });
    }
  }
  return { rows };
}
