/** A run in a process that is not rank 0: it has no folder and writes nothing, and does what rank 0 says. */
import { AcoerError, errorCode, errorMessage } from '../base/errors';
import { admitModules } from '../life/modules/named-modules';
import { Halt } from '../life/halt';
import { trainSteps } from '../grpo/loop';
import type { LoopStep } from '../grpo/step';
import type { EvalPhase, RunSummary, TrainEvent, TrainStep } from '../life/events';
import { Watchdog } from '../life/watchdog';
import type { Config } from '../config';
import { gatherMoment } from '../ranks/shards';
import { compareWeights, shareWeights } from '../ranks/weights';
import { evaluatePolicy, evaluationContext, type EvaluationContext } from './evaluation';
import { nextOrder, openSamplers } from './lead';
import { openModel, type OpenedModel } from './opened';
import { GRPO, type TrainAsked } from './opening';
import type { TrainOptions } from './options';
import type { Together } from './together';

/** What rank 0 tells of the run that it has opened. */
export interface RunTold {
  directory: string;
  config: Config;
  /** The run was finished before: nothing is left to do. */
  finished: RunSummary | null;
}

export class Follower {
  /** Whether a step, or the result, has been asked for. */
  begun = false;
  private failure: unknown;

  constructor(
    readonly directory: string,
    private readonly together: Together,
    private readonly opened: OpenedModel,
    private readonly evaluation: EvaluationContext,
    private readonly halt: Halt,
    private readonly watchdog: Watchdog,
  ) {}

  stop(): void {
    this.halt.stop();
  }

  doing(): string {
    return `as rank ${this.together.joined.launch.rank}, in ${this.watchdog.running ?? 'no phase'}`;
  }

  /** There is no folder to give back. */
  release(): void {}

  async *drive(): AsyncGenerator<TrainStep, RunSummary> {
    this.begun = true;
    try {
      return yield* this.follow();
    } catch (error) {
      this.failure = this.ending(error);
      throw this.failure;
    } finally {
      await this.close();
    }
  }

  private async *follow(): AsyncGenerator<TrainStep, RunSummary> {
    const { loop } = this.opened;
    const { ranks, policy } = loop;
    let steps: AsyncGenerator<LoopStep, void> | null = null;
    for (;;) {
      const order = await nextOrder(ranks);
      if (order.do === 'step') {
        const made = await steps!.next();
        if (made.done !== true) yield { index: made.value.index, metrics: made.value.metrics };
      } else if (order.do === 'evaluate') {
        await this.evaluate(order.phase);
      } else if (order.do === 'compare') {
        await compareWeights(ranks, policy, order.step);
      } else if (order.do === 'gather') {
        await gatherMoment(ranks, policy, order.moment);
      } else if (order.do === 'share') {
        await steps?.return();
        await shareWeights(ranks, policy, order.moments);
      } else if (order.do === 'open') {
        await this.watchdog.phase('loading', () => openSamplers(loop, this.halt.waiting));
      } else if (order.do === 'start') {
        steps = trainSteps(loop, order.position, { signal: this.halt.step });
      } else {
        this.together.joined.beats.finish();
        await steps?.return();
        if (order.do === 'end') return order.summary;
        throw new AcoerError(order.error.code, order.error.message);
      }
    }
  }

  /** What fails on any rank fails on rank 0, which says what follows. */
  private async evaluate(phase: EvalPhase): Promise<void> {
    try {
      await evaluatePolicy(this.evaluation, phase, this.halt.waiting);
    } catch (error) {
      if (this.watchdog.abandoned) throw error;
    }
  }

  private ending(error: unknown): unknown {
    const { halt, watchdog } = this;
    if (watchdog.hung !== null) return watchdog.hung;
    if (halt.failure !== null) return halt.failure;
    if (!halt.caused(error)) return error;
    return new AcoerError('INTERRUPTED', 'Interrupted; rank 0 has saved the run.', { cause: error });
  }

  async close(): Promise<void> {
    const { begun, failure, halt, watchdog, opened, together } = this;
    this.begun = true;
    halt.dispose();
    const left = begun ? failure : new AcoerError('INTERRUPTED', 'The run was left before its first step.');
    try {
      await opened.close(!watchdog.abandoned);
    } finally {
      watchdog.close();
      await together.part(left);
    }
  }
}

/** Opens what rank 0 has opened, but for its folder. */
export async function follow(
  together: Together,
  { config, directory }: RunTold,
  asked: TrainAsked,
  options: TrainOptions,
  tell: (event: TrainEvent) => void,
): Promise<Follower> {
  const warn = (message: string): void => tell({ type: 'warning', message });
  // Rank 0 names files of code, which this process would run.
  const trusted = { named: GRPO.named(asked), trust: asked.trust };
  await admitModules('Rank 0', GRPO.modules(config), trusted, warn);
  const halt = new Halt(options.signal);
  const { hangGraceMs: graceMs, exitWhenBlocked } = options;
  const silences = GRPO.silences(config);
  const resume = `acoer train --resume ${directory}`;
  const about = { config, silences, directory: null, resume, emit: tell, graceMs, exitWhenBlocked };
  const watchdog = new Watchdog(about);
  watchdog.onStop = (error) => halt.hang(error);
  together.watch(halt, watchdog);
  try {
    return await watchdog.phase('loading', async () => {
      // Rank 0 has said it.
      const fetching = { ...asked.fetching, onNotice: () => undefined };
      const inputs = await GRPO.openInputs(config, { ...asked, fetching });
      const { processes, openEngine } = together.opening;
      const own = { ...options, processes, openEngine: () => openEngine(config), signal: halt.waiting, warn };
      const model = await openModel({ config, inputs, checkpoint: null }, watchdog, own);
      await together.agreeOnInputs(model, inputs).catch(async (error: unknown) => {
        await model.close(true);
        throw error;
      });
      const emit = (event: TrainEvent): void => {
        if (event.type === 'warning') tell(event);
      };
      const evaluation = evaluationContext(model.loop, inputs, { emit, save: () => Promise.resolve() });
      return new Follower(directory, together, model, evaluation, halt, watchdog);
    });
  } catch (error) {
    halt.dispose();
    watchdog.close();
    if (halt.failure !== null) throw halt.failure;
    throw errorCode(error) === undefined ? new AcoerError('INTERNAL', errorMessage(error)) : error;
  }
}
