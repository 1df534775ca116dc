/** Notices steps with nothing to learn from: every advantage is 0 or masked, so only a KL term has effect. */
import type { Config } from '../config';
import type { GenerationBatch } from '../grpo/batch';
import { updatesPerBatch } from '../base/batches';
import { isTruncated } from '../grpo/sample';
import type { Rollout } from '../base/types';

/** Consecutive steps after which to warn. */
const STEPS = 50;

/** Consecutive steps without a signal, and what was true of all their completions. */
interface Stretch {
  steps: number;
  truncated: boolean;
  wrong: boolean;
  right: boolean;
}

const START: Stretch = { steps: 0, truncated: true, wrong: true, right: true };

/** Whether some unmasked completion has an advantage other than 0. */
const hasSignal = ({ samples }: GenerationBatch): boolean =>
  samples.some(({ masked, advantage }) => !masked && advantage !== 0);

function likelyCause({ truncated, wrong, right }: Stretch, maxCompletionLength: number): string {
  if (truncated)
    return `every completion was cut off at maxCompletionLength = ${maxCompletionLength}; raise it`;
  if (wrong)
    return 'no answer was right; the problems may be too hard, or answers are not given in \\boxed{}';
  if (right) return 'every answer was right with the same reward; the problems are too easy for this reward';
  return 'the completions of a group have equal rewards; the reward does not tell them apart';
}

/** Counts steps without a signal and warns once per stretch. */
export class NoSignal {
  private stretch = START;

  constructor(private readonly config: Config) {}

  /** Returns a sentence after 50 such steps in a row, otherwise null. @param batch newly generated */
  observe(batch: GenerationBatch): string | null {
    if (hasSignal(batch)) {
      this.stretch = START;
      return null;
    }
    const all = (holds: (rollout: Rollout) => boolean) =>
      batch.groups.every(({ rollouts }) => rollouts.every(holds));
    const { steps, truncated, wrong, right } = this.stretch;
    this.stretch = {
      steps: steps + updatesPerBatch(this.config),
      truncated: truncated && all(isTruncated),
      wrong: wrong && all(({ verdict }) => !verdict.correct),
      right: right && all(({ verdict }) => verdict.correct),
    };
    if (steps >= STEPS || this.stretch.steps < STEPS) return null;
    const cause = likelyCause(this.stretch, this.config.maxCompletionLength);
    return `The last ${this.stretch.steps} steps had nothing to learn from: ${cause}.`;
  }
}
