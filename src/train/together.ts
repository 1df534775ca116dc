/** A run of several processes: joining, and what must be the same. */
import { existsSync } from 'node:fs';
import { join as pathOf } from 'node:path';
import type { Config } from '../config';
import type { Engine } from '../engine/types';
import type { Halt } from '../life/halt';
import { engineFacts, openRankEngine } from '../life/rank-engine';
import type { Watchdog } from '../life/watchdog';
import type { Joined } from '../ranks';
import { agreeOn, factsOf, type Facts } from '../ranks/agree';
import { joinLaunched, RankProcess } from '../ranks/process';
import type { OpenedModel } from './opened';
import type { Inputs } from './inputs';
import type { TrainAsked } from './opening';
import type { TrainOptions } from './options';

/** Settings that say where a process computes and whom it tells, not what is learnt. */
const OWN = new Set(['device', 'threads', 'notify']);

const settingFacts = (
  { settings, acceptChanged, trust }: TrainAsked,
  { resume, fork }: TrainOptions,
): Facts => ({
  ...factsOf({ ...settings, acceptChanged, trust }, OWN),
  run: resume !== undefined ? 'resumed' : fork !== undefined ? `forked at step ${fork.at}` : 'new',
});

const inputFacts = ({ engine, model, identity }: OpenedModel, { trainData, evalData }: Inputs): Facts => ({
  ...engineFacts(engine, model, { ...identity }),
  'the number of problems': String(trainData.size),
  'the training data': trainData.source?.fingerprint ?? '',
  'the number of problems of the evaluation': String(evalData?.size ?? 0),
});

/** What this process has of a run of several. */
export class Together extends RankProcess {
  /** A run that the launcher has started again, which goes on; undefined: this is its first start. */
  restartedRun(out: string | undefined): string | undefined {
    const { run, restarts } = this.joined.launch;
    const before = run ?? (restarts > 0 ? out : undefined);
    return before !== undefined && existsSync(pathOf(before, 'config.json')) ? before : undefined;
  }

  agreeOnSettings(asked: TrainAsked, options: TrainOptions): Promise<void> {
    return agreeOn(this.ranks, 'settings', () => Promise.resolve(settingFacts(asked, options)));
  }

  /** How the model is opened. */
  get opening(): { processes: Joined['group']; openEngine: (config: Config) => Promise<Engine> } {
    const { group, launch } = this.joined;
    return { processes: group, openEngine: (config) => openRankEngine(config, launch) };
  }

  agreeOnInputs(opened: OpenedModel, inputs: Inputs): Promise<void> {
    return agreeOn(opened.loop.ranks, 'files and data', () => Promise.resolve(inputFacts(opened, inputs)));
  }

  /** From now on the process ends when another is lost or is asked to stop, and waiting for others is no hang. */
  watch(halt: Halt, watchdog: Watchdog): void {
    const { beats, group } = this.joined;
    beats.onStop = () => halt.stop();
    beats.onTick = () => {
      if (group.waits) watchdog.progress();
      const phase = group.waits ? 'waiting for others' : (watchdog.running ?? 'between two steps');
      beats.at({ step: watchdog.atStepNow, phase });
    };
    const onLost = (): void => halt.fail(beats.lost.reason as Error);
    beats.lost.addEventListener('abort', onLost);
    if (beats.lost.aborted) onLost();
    halt.waiting.addEventListener('abort', () => beats.stop());
  }
}

/** null: this process trains alone. @throws BAD_ARGUMENT, RANK_LOST */
export async function trainTogether(
  { signal, exitWhenBlocked }: TrainOptions,
  warn: (message: string) => void,
): Promise<Together | null> {
  const joined = await joinLaunched({ warn, signal, exitWhenStopped: exitWhenBlocked === true });
  return joined && new Together(joined);
}
