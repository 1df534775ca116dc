/** The model families whose config.json can be read. */
import { checkName, needObject, needString } from '../base/border';
import { AcoerError } from '../base/errors';
import { llama } from './llama';
import { mistral } from './mistral';
import { qwen2 } from './qwen2';
import { qwen3 } from './qwen3';
import type { ModelFamily } from './spec';

const BUILT_IN: readonly ModelFamily[] = [qwen3, qwen2, llama, mistral];
const registry = new Map(BUILT_IN.map((family) => [family.architecture, family]));

/**
 * Adds a family with the same arithmetic but other names: its config.json is mapped to a `ModelSpec`, its
 * tensor names to the engine's (those of the built-in families in transformers). A second call with the same
 * architecture replaces the first.
 * @throws BAD_CONFIG for the names of a built-in family
 */
export function registerModelFamily(family: ModelFamily): void {
  needObject('the model family', family);
  checkName('model family', family.architecture);
  needString('modelType', family.modelType);
  const { architecture, modelType } = family;
  if (BUILT_IN.some((own) => own.architecture === architecture || own.modelType === modelType)) {
    throw new AcoerError(
      'BAD_CONFIG',
      `The model family ${architecture} (${modelType}) is built in; choose another name.`,
    );
  }
  registry.set(architecture, family);
}

export const modelFamilies = (): ModelFamily[] => [...registry.values()];
