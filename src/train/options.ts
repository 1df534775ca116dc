/** What a program gives `train` besides settings, and the checks of it. */
import { needMethods } from '../base/border';
import { CONFIG_KEYS, type ConfigInput } from '../config';
import { givenDataset } from '../data';
import { AcoerError } from '../base/errors';
import { shownJson } from '../base/json';
import { checkCall, OWN_FORMS, RUN_OPTIONS, type CallForm, type RunOptions } from '../life/call';
import { givenTokenizer } from '../tokenizer';
import type { TrainEvent } from '../life/events';
import type { ForkPoint } from './fork';
import type { GivenParts } from './inputs';
import type { PlainOptions } from './plain';

/** Settings of the configuration, which override those of a preset: what a file can hold. */
export interface TrainSettings extends ConfigInput {
  /** Default: `tiny` for the embedded model, else `paper`. */
  preset?: string | undefined;
}

/** How to run, and code and data of this process. One with the name of a setting is used instead of that. */
export interface TrainOptions extends RunOptions<TrainEvent>, PlainOptions, GivenParts {
  /**
   * With `resume`: continue although this has changed since the checkpoint; the run shows it. Everything else
   * must be the same.
   * @default []
   */
  acceptChanged?: readonly 'reward'[];
  /** A run's checkpoint to continue from, in a new folder and with the settings given here. */
  fork?: ForkPoint;
}

const { rows, code, codes, objects } = OWN_FORMS;
const OWN = {
  dataset: rows,
  evalDataset: rows,
  reward: codes,
  judge: code,
  sampler: code,
  sinks: objects,
} as const;

/** A record, so that none can be forgotten. */
const OPTIONS: Record<Exclude<keyof TrainOptions, keyof RunOptions | keyof typeof OWN>, true> = {
  fork: true,
  acceptChanged: true,
  engine: true,
  tokenizer: true,
  trainData: true,
  evalData: true,
};

export const TRAIN_CALL: CallForm = {
  call: 'train',
  settings: ['preset', ...CONFIG_KEYS],
  options: [...RUN_OPTIONS, ...Object.keys(OPTIONS)],
  own: OWN,
};

/** @throws BAD_CONFIG for something that cannot be accepted, or for a run that is not resumed */
function checkAcceptance({ acceptChanged = [], resume }: TrainOptions): void {
  const unknown = acceptChanged.find((what) => (what as string) !== 'reward');
  if (unknown !== undefined) {
    throw new AcoerError('BAD_CONFIG', `acceptChanged can name reward only, not ${shownJson(unknown)}.`);
  }
  if (acceptChanged.length > 0 && resume === undefined) {
    throw new AcoerError(
      'BAD_CONFIG',
      'acceptChanged is about resuming a run: leave it out, or name resume.',
    );
  }
}

/** @throws BAD_CONFIG for a new run, all of whose code its caller names */
function checkTrust({ trust = false, resume, fork }: TrainOptions): void {
  if (typeof trust !== 'boolean') {
    throw new AcoerError('BAD_CONFIG', `trust must be true or false, not ${shownJson(trust)}.`);
  }
  if (trust && resume === undefined && fork === undefined) {
    throw new AcoerError(
      'BAD_CONFIG',
      'trust is about a run to resume or to fork: leave it out, or name one.',
    );
  }
}

/**
 * The options with tokenizer and data that are checked each time they are asked.
 * @throws BAD_ARGUMENT, BAD_CONFIG naming the option or setting that is in the wrong place, or not what it must be
 */
export function givenOptions(settings: TrainSettings, options: TrainOptions): TrainOptions {
  checkCall(TRAIN_CALL, settings, options);
  const { engine, tokenizer, trainData, evalData } = options;
  if (engine !== undefined) needMethods('engine', engine, ['loadModel', 'memory', 'dispose']);
  if (options.resume !== undefined && options.fork !== undefined) {
    throw new AcoerError('BAD_CONFIG', 'A run is either resumed or forked: leave out resume or fork.');
  }
  checkAcceptance(options);
  checkTrust(options);
  return {
    ...options,
    ...(tokenizer !== undefined && { tokenizer: givenTokenizer('tokenizer', tokenizer) }),
    ...(trainData !== undefined && { trainData: givenDataset('trainData', trainData) }),
    ...(evalData !== undefined && { evalData: givenDataset('evalData', evalData) }),
  };
}
