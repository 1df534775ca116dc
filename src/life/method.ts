/** The port between the life of a run, which is the same for all, and the method that it trains by. */
import type { Config } from '../config';
import type { AcoerError } from '../base/errors';
import type { ModelFetchOptions } from '../models';
import type { AcceptedChange, Rollback, RunDirectory, StoredCheckpoint } from '../run';
import type { StepMetrics } from '../base/types';
import type { Changeable } from './changes';
import type { CommonEvent, TrainStep } from './events';
import type { Life } from './life';
import type { Loaded } from './policy';
import type { UserModule } from './modules/user-modules';
import type { RunFiles } from './run-files';
import type { Silences, WatchdogSettings } from './watchdog';
import type { SinkSettings } from './sink';
import type { TensorBoardSettings } from './tensorboard';

/** The settings that the life of a run itself works by. */
export interface LifeSettings
  extends
    WatchdogSettings,
    SinkSettings,
    Omit<TensorBoardSettings, 'maxSteps'>,
    Pick<Config, 'tensorboard' | 'csv' | 'model'> {
  /** null: the data decide. */
  maxSteps: number | null;
}

/** Settings of a run that knows how many steps it makes. */
export type Counted<Settings> = Settings & { maxSteps: number };

/** What the caller gave. */
export interface Asked {
  settings: object;
  fetching: ModelFetchOptions;
  /** The code that a resumed or forked run names may be loaded. */
  trust: boolean;
  /** What may have changed since the run was interrupted. */
  acceptChanged?: readonly 'reward'[];
}

/** A run whose folder is open and locked, before its model is loaded. */
export interface Opening<Settings, Inputs> {
  directory: RunDirectory;
  config: Counted<Settings>;
  inputs: Inputs;
  /** The folder was there before. */
  resumed: boolean;
  /** null: from the beginning. */
  checkpoint: StoredCheckpoint | null;
  /** Changes that the user has accepted, now or before. */
  accepted: AcceptedChange[];
}

/** What a method knows of its settings and its data, before a model is loaded. */
export interface Method<Settings extends LifeSettings, Inputs, Given extends Asked> {
  /** The command whose runs these are, as in `acoer train`. */
  command: string;
  /** What may change when a run is resumed. */
  changeable: Changeable<Settings>;
  /** @throws BAD_CONFIG listing every problem */
  resolve(asked: Given): Settings;
  /**
   * The settings stored in a run, and the same under those asked for, with paths and commits that keep their meaning.
   * @throws BAD_CONFIG for a run of another method
   */
  resolveOver(run: RunDirectory, asked: Given): { stored: Settings; wanted: Settings };
  /** The settings that the steps up to a checkpoint were made with. */
  resolveStored(checkpoint: StoredCheckpoint, asked: Given): Settings;
  /** Whether the files of model and user are compared with those of the checkpoint. */
  comparesFiles(checkpoint: StoredCheckpoint): boolean;
  /** The files of code that the settings name. */
  modules(config: Settings): UserModule[];
  /** The files of code that the caller names. */
  named(asked: Given): string[];
  /** Names that mean the same later and elsewhere. */
  lasting(config: Settings, asked: Given): Promise<Settings>;
  /** @returns what was accepted, before and now @throws BAD_INPUT for a changed file of the user's code */
  checkModules?(
    run: string,
    checkpoint: StoredCheckpoint,
    config: Settings,
    asked: Given,
  ): Promise<AcceptedChange[]>;
  openInputs(config: Settings, asked: Given): Promise<Inputs>;
  closeInputs: (inputs: Inputs) => Promise<void>;
  /** @throws BAD_INPUT for data, tokenizer or adapter that are not those of the checkpoint */
  checkInputs(run: string, checkpoint: StoredCheckpoint, inputs: Inputs, config: Settings): void;
  /** With what only the inputs tell, such as a commit of the data. */
  pinned(config: Settings, inputs: Inputs, asked: Given): Counted<Settings>;
  /** The name of a new run's folder. */
  nameOf(config: Settings, inputs: Inputs): string;
  silences(config: Settings): Silences;
  /** TensorBoard's tags that judge a run. */
  judgedBy(config: Settings): string[];
}

export const resumeCommand = (method: { command: string }, directory: string): string =>
  `acoer ${method.command} --resume ${directory}`;

/** Whether something is due that happens every so many steps (0: never) and after the last. */
export const isDue = ({ step, maxSteps }: { step: number; maxSteps: number }, every: number): boolean =>
  step === maxSteps || (every > 0 && step % every === 0);

/** Everything that a run has open. */
export type Running = Life<CommonEvent> & Loaded;

/** A step that was made. */
export interface MadeStep extends TrainStep {
  /** Why nothing of it was applied; none: it was. */
  refusal?: object | null;
}

/** What follows from a step. */
export type Next =
  | { do: 'go on'; warning: string | null }
  | { do: 'roll back'; rollback: Rollback; code: 'COLLAPSED' | 'NOT_FINITE' }
  /** `changed`: the state has changed, so it is saved before the end. */
  | { do: 'end'; error: AcoerError; changed?: boolean };

/** A method at work on a run that is open. */
export interface Work<Step extends MadeStep, Summary> {
  readonly files: RunFiles;
  readonly maxSteps: number;
  /** Steps made. */
  readonly step: number;
  /** What a checkpoint holds besides weights and optimiser. `pending`: the newest step's line until it is written. */
  readonly state: { pending: StepMetrics | null };
  /** No checkpoint of this run holds the state. */
  readonly unsaved?: boolean;
  /** Whether there must be a checkpoint before the first step. */
  readonly needsStart?: boolean;
  /** Before the first step of this process. @returns whether the state has changed */
  begin(): Promise<boolean>;
  /** The steps that are left, each made on demand; asked for again after a rollback. */
  steps(): AsyncGenerator<Step, void>;
  /** What follows from a step of which nothing was applied. */
  refused?(step: Step): Promise<Next>;
  /** From here on the step counts as made, and its line is pending. */
  record(step: Step): Promise<void>;
  /** Completes the pending line, by an evaluation if one is due. @returns whether the state is worth a checkpoint */
  complete(line: StepMetrics): Promise<boolean>;
  /** What follows from the newest step. */
  after?(): Next;
  /** Goes back to a checkpoint: weights, state and files. */
  rollBack?(next: Next & { do: 'roll back' }): Promise<void>;
  saveIsDue(): boolean;
  save(signal?: AbortSignal): Promise<void>;
  /** After the last step: evaluates, and writes the last files. */
  finish(): Promise<Summary>;
  /** The run has ended, and been saved: the last word to the processes that train with this one. @param error none: it ended, or was left */
  left?(error: unknown): Promise<void>;
  /** What came of the whole run, in a sentence or two. */
  inWords(summary: Summary): string | Promise<string>;
  /** What to do after an error with this code, in a sentence; null: nothing is known. */
  advice(code: string): string | null;
}
