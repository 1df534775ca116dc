/** A run of several processes: joining, what must be the same, and which device is whose. */
import { existsSync } from 'node:fs';
import { availableParallelism } from 'node:os';
import { join as pathOf } from 'node:path';
import { AcoerError, errorCode } from '../base/errors';
import type { Config } from '../config';
import type { DeviceName, Engine } from '../engine/types';
import type { Halt } from '../life/halt';
import { openEngine } from '../life/policy';
import type { Watchdog } from '../life/watchdog';
import { join, launchOf, Ranks, type Joined, type Launch } from '../ranks';
import { agreeOn, type Facts } from '../ranks/agree';
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
  ...Object.fromEntries(
    Object.entries({ ...settings, acceptChanged, trust })
      .filter(([name, value]) => !OWN.has(name) && value !== undefined)
      .map(([name, value]) => [name, JSON.stringify(value)]),
  ),
  run: resume !== undefined ? 'resumed' : fork !== undefined ? `forked at step ${fork.at}` : 'new',
});

/** Files and data by content: other ranks may have them in other places. */
function inputFacts({ engine, model, identity }: OpenedModel, { trainData }: Inputs): Facts {
  const { device, libtorch } = engine.deviceInfo;
  const prints = Object.entries(identity).flatMap(([part, files]) =>
    Object.entries(files ?? {}).map(([name, print]) => [`${part} ${name}`, String(print)]),
  );
  return {
    ...(Object.fromEntries(prints) as Facts),
    'the number of problems': String(trainData.size),
    'the training data': trainData.source?.fingerprint ?? '',
    dtype: model.info.dtype,
    libtorch,
    device: device.replace(/:\d+$/, ''),
  };
}

/** The GPU with this process's number on its machine, and its share of the cores. */
async function openLocalEngine(config: Config, { localRank, localSize }: Launch): Promise<Engine> {
  const threads = config.threads ?? Math.max(1, Math.floor(availableParallelism() / localSize));
  const own = { ...config, threads };
  const device: DeviceName = `cuda:${localRank}`;
  if (config.device === 'cuda') return openEngine({ ...own, device });
  if (config.device !== 'auto') return openEngine(own);
  try {
    return await openEngine({ ...own, device });
  } catch (error) {
    if (errorCode(error) !== 'DEVICE') throw error;
    // No GPU, or each process sees only its own.
    return openEngine(own);
  }
}

/** What this process has of a run of several. */
export class Together {
  readonly ranks: Ranks;

  constructor(readonly joined: Joined) {
    this.ranks = new Ranks(joined.group);
  }

  get leads(): boolean {
    return this.joined.launch.rank === 0;
  }

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
    return { processes: group, openEngine: (config) => openLocalEngine(config, launch) };
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

  /** @param error none: the run has ended well */
  readonly part = (error: unknown): Promise<void> => {
    this.joined.beats.finish();
    return error === undefined ? this.joined.part() : this.joined.fail(error);
  };
}

let joinedBefore = false;

/** null: this process trains alone. @throws BAD_ARGUMENT, RANK_LOST */
export async function trainTogether(
  { signal, exitWhenBlocked }: TrainOptions,
  warn: (message: string) => void,
): Promise<Together | null> {
  const launch = launchOf(process.env);
  if (launch === null) return null;
  if (joinedBefore)
    throw new AcoerError('BAD_ARGUMENT', 'A process of several trains one run; start others for the next.');
  joinedBefore = true;
  return new Together(await join(launch, { warn, signal, exitWhenStopped: exitWhenBlocked === true }));
}
