/** The known losses: TRL's eight and registered ones. */
import type { z } from 'zod';
import { AcoerError } from '../errors';
import { cispo } from './cispo';
import { CLIPPED } from './clipped';
import { sapo } from './sapo';
import type { LossDefinition } from './types';
import { vespo } from './vespo';

const BUILT_IN = [...CLIPPED, cispo, sapo, vespo] as unknown as readonly LossDefinition[];
const builtInNames = new Set(BUILT_IN.map(({ name }) => name));
const registry = new Map(BUILT_IN.map((loss) => [loss.name, loss]));

/**
 * Adds a loss under its name; a second call under the same name replaces the first. Built-in names are
 * reserved. `parameters` are zod types with defaults; `lossParams.<name>` in the configuration sets them.
 */
export function registerLoss<Shape extends z.ZodRawShape>(loss: LossDefinition<Shape>): void {
  if (loss.name === '' || builtInNames.has(loss.name)) {
    const why = loss.name === '' ? 'needs a name' : `named "${loss.name}" is built in; choose another name`;
    throw new AcoerError('BAD_CONFIG', `A loss ${why}`);
  }
  registry.set(loss.name, loss);
}

/** Every known loss, built-in ones first. */
export const listLosses = (): LossDefinition[] => [...registry.values()];

/** The loss of that name, or undefined. */
export const findLoss = (name: string): LossDefinition | undefined => registry.get(name);
