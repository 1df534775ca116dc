/** The known losses: TRL's eight and registered ones. */
import { checkName, needMethods, needObject } from '../base/border';
import type { z } from 'zod';
import { badUsage } from '../base/errors';
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
  needObject('the loss', loss);
  checkName('loss', loss.name);
  if (builtInNames.has(loss.name)) {
    throw badUsage(`A loss named "${loss.name}" is built in; choose another name`);
  }
  needObject(`loss "${loss.name}": parameters`, loss.parameters);
  needMethods(`loss "${loss.name}"`, loss, ['normalizer', 'compute', 'metrics']);
  registry.set(loss.name, loss);
}

/** Whether the loss comes with the program. */
export const isBuiltInLoss = (name: string): boolean => builtInNames.has(name);

/** Every known loss, built-in ones first. */
export const listLosses = (): LossDefinition[] => [...registry.values()];

/** The loss of that name, or undefined. */
export const findLoss = (name: string): LossDefinition | undefined => registry.get(name);
