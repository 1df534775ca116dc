/**
 * Notices a run that hangs: knows its phase, when that began, and the last sign of progress. When a phase is
 * silent for too long, it writes a dump of what was running; then the run keeps waiting or ends, as `onHang`
 * says.
 *
 * Time is counted in ticks of the event loop, each as at most twice its length, so that a stopped process, a
 * debugger, a sleeping machine or a changed clock never looks like a hang.
 */
import { url as debuggerUrl } from 'node:inspector';
import type { Worker } from 'node:worker_threads';
import type { Phase } from '../../config';
import { awakeTimer } from '../../base/deadline';
import type { Engine, Model } from '../../engine/types';
import { AcoerError, errorMessage } from '../../base/errors';
import { writeJsonAtomic, type RunDirectory } from '../../run';
import type { Sampler } from '../../sampling';
import { abortable } from '../../base/abortable';
import type { CommonEvent } from '../events';
import { hangReport, hangSentence, type Hang } from './dump';
import { phaseLimitMs, tickMs, type ModelSize, type Silences, type WatchdogSettings } from './limits';
import { startSentinel } from './sentinel';
import { clockMs, SharedState } from './shared';
import type { Watch } from '../../grpo/watch';

/** The run was ended by its watchdog. */
export class HungError extends AcoerError {
  /** The hung call did not end when cancelled: it still runs, and an exit of the process waits for it. */
  stuck = false;
}

/** Whether the call behind `error` still runs in this process, which can then only be ended by force. */
export const isStuck = (error: unknown): boolean => error instanceof HungError && error.stuck;

export interface WatchdogParts {
  config: WatchdogSettings;
  silences: Silences;
  /** null: this process has none, and writes no dump. */
  directory: RunDirectory | null;
  /** The command that resumes the run. */
  resume: string;
  emit: (event: CommonEvent) => void;
  /** Is told of every phase that begins, or continues after an inner one. */
  onPhase?: (phase: Phase, step: number) => void;
  /** How long a hung call that was cancelled, and each phase after it, may take to end. Default 30,000 ms. */
  graceMs?: number;
  /** End the process when its thread is blocked and `onHang` is `stop`. */
  exitWhenBlocked?: boolean;
}

const GRACE_MS = 30_000;
const SHOWN_IN_FLIGHT = 512;

interface Current {
  phase: Phase | null;
  beganMs: number;
  limitMs: number;
  inFlight: Set<() => unknown>;
  progress: number;
}

const idle = (): Current => ({
  phase: null,
  beganMs: clockMs(),
  limitMs: Infinity,
  inFlight: new Set(),
  progress: 0,
});

export class Watchdog implements Watch {
  /** Why the run must end; null: nothing has hung. */
  hung: HungError | null = null;
  /** Called once when the run must end. */
  onStop: (error: HungError) => void = () => undefined;
  private step = 0;
  private readonly shared = new SharedState();
  private readonly abandoning = new AbortController();
  private readonly longestMs = new Map<Phase, number>();
  private readonly tickMs: number | null;
  private readonly timer: NodeJS.Timeout | undefined;
  private readonly sentinel: Worker | null = null;
  private model: ModelSize | null = null;
  private device: Engine['deviceInfo'] | null = null;
  private current = idle();
  private silentMs = 0;
  private heardMs = clockMs();
  private fired = false;
  private lastTickMs = clockMs();
  private endGrace: (() => void) | undefined;

  constructor(private readonly parts: WatchdogParts) {
    const { config, directory, resume, exitWhenBlocked = false } = parts;
    this.tickMs = tickMs(config);
    if (this.tickMs === null) return;
    this.timer = setInterval(() => this.tick(), this.tickMs).unref();
    const setup = {
      buffer: this.shared.buffer,
      tickMs: this.tickMs,
      directory: directory?.path ?? null,
      resume,
      kill: exitWhenBlocked && config.onHang === 'stop',
    };
    this.sentinel = startSentinel(
      setup,
      // The other thread saw this one blocked; now it is free again.
      ({ hang, path }) => this.report(hang, path),
      this.sentinelLost,
    );
  }

  /** The hung call still runs although it was cancelled, so no further call to the engine will return. */
  get abandoned(): boolean {
    return this.abandoning.signal.aborted;
  }

  /** From now on the limits depend on the model's size and device, and on the sampler of rollouts, if there is one. */
  loaded({ deviceInfo }: Engine, { info }: Model, sampler?: Sampler): void {
    const { reportsProgress = false } = sampler ?? {};
    const { parameterCount: parameters, numLayers: layers, maxPositions } = info;
    const cuda = deviceInfo.device.startsWith('cuda');
    this.model = { parameters, layers, maxPositions, cuda, samplerReports: reportsProgress };
    this.device = deviceInfo;
    this.sentinel?.postMessage({ engine: deviceInfo });
  }

  /** The step that the run is at, from 1; 0 before the first. */
  get atStepNow(): number {
    return this.step;
  }

  /** null: nothing runs, or nothing is watched. */
  get running(): Phase | null {
    return this.current.phase;
  }

  async phase<T>(phase: Phase, work: () => Promise<T>): Promise<T> {
    const outer = this.current;
    this.enter(phase);
    try {
      // Keeps the process alive: if nothing else does during a hang, it would exit unnoticed.
      this.timer?.ref();
      return await abortable(work(), this.abandoning.signal);
    } finally {
      this.leave(outer);
    }
  }

  during<T>(phase: Phase, note: () => string, work: () => T): T {
    if (this.tickMs === null) return work();
    const outer = this.current;
    this.enter(phase);
    this.note(note);
    try {
      return work();
    } finally {
      this.leave(outer);
    }
  }

  begin(describe: () => unknown): () => void {
    const { inFlight } = this.current;
    inFlight.add(describe);
    return () => {
      if (inFlight.delete(describe)) this.progress();
    };
  }

  atStep(step: number): void {
    this.step = step;
  }

  progress(): void {
    this.heard();
    this.current.progress++;
    this.shared.moved();
  }

  note(text: () => string): void {
    if (this.tickMs !== null) this.shared.write(text());
  }

  close(): void {
    clearInterval(this.timer);
    this.endGrace?.();
    void this.sentinel?.terminate();
  }

  private enter(phase: Phase): void {
    this.heard();
    const { config, silences } = this.parts;
    const longestMs = this.longestMs.get(phase) ?? 0;
    const limitMs = phaseLimitMs(phase, config, silences(phase, this.model), longestMs);
    this.show({ ...idle(), phase, limitMs: limitMs ?? Infinity });
    if (this.hung !== null && !this.abandoned) this.grace(this.hung);
  }

  private leave(outer: Current): void {
    this.heard();
    this.show(outer);
    if (outer.phase === null) this.timer?.unref();
    if (outer.phase === null) this.endGrace?.();
  }

  private show(current: Current): void {
    this.current = current;
    const { phase, limitMs, progress, beganMs } = current;
    this.shared.enter(phase, this.step, limitMs, progress, beganMs);
    if (phase !== null) this.parts.onPhase?.(phase, this.step);
  }

  /** Ends the silence after a sign of life. */
  private heard(): void {
    const { phase } = this.current;
    if (phase !== null && this.silentMs > 0) {
      this.longestMs.set(phase, Math.max(this.silentMs, this.longestMs.get(phase) ?? 0));
    }
    this.silentMs = 0;
    this.heardMs = clockMs();
    this.fired = false;
  }

  private tick(): void {
    const now = clockMs();
    const elapsedMs = Math.min(now - Math.max(this.lastTickMs, this.heardMs), 2 * this.tickMs!);
    this.lastTickMs = now;
    this.shared.beat(debuggerUrl() !== undefined);
    if (this.current.phase === null || this.fired) return;
    this.silentMs += elapsedMs;
    if (this.silentMs >= this.current.limitMs) this.fire(this.current.phase);
  }

  private fire(phase: Phase): void {
    this.fired = true;
    const { current, shared, step, silentMs } = this;
    const { limitMs, progress } = current;
    const timeInPhaseMs = clockMs() - current.beganMs;
    const hang: Hang = { phase, step, timeInPhaseMs, silentMs, limitMs, progress, note: shared.read().note };
    this.report(hang, this.dump(hang));
  }

  /** @returns the dump's path, or null when it could not be written */
  private dump(hang: Hang): string | null {
    const { directory, emit } = this.parts;
    if (directory === null) return null;
    const path = directory.hang(hang.step, hang.phase);
    const shown = [...this.current.inFlight].slice(0, SHOWN_IN_FLIGHT);
    try {
      directory.lock?.assertHeld();
      writeJsonAtomic(path, {
        ...hangReport(hang),
        engine: this.device,
        inFlightCount: this.current.inFlight.size,
        inFlight: shown.map((describe) => describe()),
      });
      return path;
    } catch (error) {
      emit({ type: 'warning', message: `The watchdog's dump could not be written: ${errorMessage(error)}` });
      return null;
    }
  }

  private report(hang: Hang, path: string | null): void {
    const message = hangSentence(hang, path);
    this.parts.emit({
      type: 'hang',
      phase: hang.phase,
      step: hang.step,
      silentMs: hang.silentMs,
      path,
      message,
    });
    if (this.parts.config.onHang === 'stop') this.stop(hang, message);
  }

  private stop({ phase }: Hang, message: string): void {
    if (this.hung !== null) return;
    const end = phase === 'loading' ? ' before it began.' : `; resume with: ${this.parts.resume}`;
    this.hung = new HungError('HUNG', `${message} The run was ended${end}`);
    this.grace(this.hung);
    this.onStop(this.hung);
  }

  private grace(hung: HungError): void {
    this.endGrace?.();
    this.endGrace = awakeTimer(this.parts.graceMs ?? GRACE_MS, () => {
      hung.stuck = true;
      this.abandoning.abort(hung);
    });
  }

  private readonly sentinelLost = (error: Error) => {
    const message = `The watchdog's thread ended (${error.message}): a blocked main thread will not be noticed.`;
    this.parts.emit({ type: 'warning', message });
  };
}
