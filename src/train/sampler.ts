/** What samples a run's completions: the engine, servers, a sampler in the user's file, or one that a program gave. */
import { resolve } from 'node:path';
import { needMethods } from '../base/border';
import { servedBy, type Config, type VllmSetting } from '../config';
import { didYouMean } from '../config/nearest';
import { isJavaScriptFile } from '../config/pattern';
import { badConfig } from '../config/problems';
import type { Policy } from '../engine/types';
import { AcoerError, badInput, badUsage, errorMessage } from '../base/errors';
import { importDefault } from '../life/modules/import-default';
import { samplerFile } from '../life/modules/user-modules';
import type { Sampler } from '../sampling';
import type { Tokenizer } from '../tokenizer';

/**
 * Makes a sampler from what it may need: the engine's own sampler, the policy to copy weights from, and the
 * tokenizer. If it computes log-probs in another way than the engine, set `importanceSamplingCorrection`.
 */
export type SamplerMaker = (parts: {
  engineSampler: Sampler;
  policy: Policy;
  tokenizer: Tokenizer;
  /** `params` of the setting; empty for a function that a program gave. */
  params: Readonly<Record<string, unknown>>;
}) => Sampler;

/** What samplers of a run are made from. */
export interface SamplerParts extends Omit<Parameters<SamplerMaker>[0], 'params'> {
  /** Makes the one that asks servers. */
  served: (setting: VllmSetting) => Sampler;
}

/** A maker with its parameters. */
export type BoundSampler = (parts: SamplerParts) => Sampler;

type Named = Pick<Config, 'sampler'>;

const ENGINE = 'engine';
const FUNCTION = 'function:';

/** The name in a run's configuration of a function that was given to `train`. */
export const functionSamplerName = (maker: SamplerMaker): string => `${FUNCTION}${maker.name || 'sampler'}`;

type InFile = Exclude<Config['sampler'], string | VllmSetting>;

const named = (sampler: string | InFile): InFile =>
  typeof sampler === 'string' ? { name: sampler, params: {} } : sampler;

/** A file, or the folder that servers see, by its absolute path. */
export function withAbsoluteFile(sampler: Config['sampler']): Config['sampler'] {
  const served = servedBy({ sampler });
  if (served !== null) return { ...served, folder: served.folder === null ? null : resolve(served.folder) };
  const [file] = samplerFile({ sampler });
  if (file === undefined) return sampler;
  return typeof sampler === 'string' ? resolve(file) : { ...sampler, name: resolve(file) };
}

/** @throws SAMPLER_FAILED when the user's function throws; BAD_ARGUMENT when it makes no sampler */
function bound(make: SamplerMaker, params: Readonly<Record<string, unknown>>): BoundSampler {
  return ({ engineSampler, policy, tokenizer }) => {
    let sampler: Sampler;
    try {
      sampler = make({ engineSampler, policy, tokenizer, params });
    } catch (cause) {
      throw new AcoerError('SAMPLER_FAILED', `sampler() failed: ${errorMessage(cause)}`, { cause });
    }
    needMethods('what sampler() returns', sampler, ['sample', 'follow']);
    const more = (['open', 'dispose'] as const).filter((name) => sampler[name] !== undefined);
    needMethods('what sampler() returns', sampler, more);
    return sampler;
  };
}

async function makerIn(path: string): Promise<SamplerMaker> {
  const refused = (why: string, cause?: unknown) =>
    badUsage(`Cannot use the sampler in ${path}: ${why}`, cause);
  const made = await importDefault(path).catch((cause: unknown) => {
    throw refused(errorMessage(cause), cause);
  });
  if (typeof made === 'function') return made as SamplerMaker;
  throw refused('its default export must be a function that makes a sampler');
}

/**
 * What `config.sampler` names. A module is loaded into this process: a sampler works with the policy, which no thread
 * can share.
 * @param own the function that was given to `train`
 * @throws BAD_CONFIG for an unknown name or a module that is no sampler; BAD_INPUT for a function that is not here
 */
export async function openSampler(config: Named, own?: SamplerMaker): Promise<BoundSampler> {
  const setting = servedBy(config);
  if (setting !== null) return ({ served }) => served(setting);
  const { name, params } = named(config.sampler as string | InFile);
  if (name.startsWith(FUNCTION)) {
    if (own !== undefined && functionSamplerName(own) === name) return bound(own, {});
    throw badInput(
      `The sampler ${name} was a function of the training program; pass it again to train() as sampler, or set sampler to engine or to a file.`,
    );
  }
  if (isJavaScriptFile(name)) return bound(await makerIn(name), params);
  const hint =
    didYouMean(name, [ENGINE]) || `; it is ${ENGINE}, a JavaScript file or {type: vllm, servers: [URL, ...]}`;
  if (name !== ENGINE)
    throw badConfig([{ path: 'sampler', message: `there is no sampler "${name}"${hint}` }]);
  const unused = Object.keys(params);
  if (unused.length === 0) return ({ engineSampler }) => engineSampler;
  throw badConfig(unused.map((key) => ({ path: `sampler.params.${key}`, message: 'unknown setting' })));
}
