/**
 * Limits that do not depend on the machine: every unit of work is charged before it is done, so the same input
 * gives the same verdict everywhere and hostile input ends by counting, not by a clock.
 */

/** Beyond these an answer does not parse. */
export const MAX_TOKENS = 2_000;
export const MAX_DEPTH = 64;
export const MAX_DIGITS = 400;
export const MAX_ITEMS = 64;
/** Only this much of the end of a completion is searched for an answer without a box. */
export const MAX_TAIL_CHARS = 8_192;
/** Longer answers are compared as strings only. */
export const MAX_ANSWER_CHARS = 4_096;
/** Exact numbers grow no further than this; beyond it values are doubles. */
export const MAX_BITS = 1 << 16;

/** Some ten milliseconds; a usual verdict takes a few hundred steps. */
const DEFAULT_STEPS = 50_000;

/** Thrown inside `verify` when the work runs out; the API turns it into the status `timeout`. */
export class BudgetExceeded extends Error {
  constructor() {
    super('the verification budget is spent');
    this.name = 'BudgetExceeded';
  }
}

export class Budget {
  private left: number;

  constructor(steps: number = DEFAULT_STEPS) {
    this.left = steps;
  }

  /** Charges `steps` (one is about 300 ns); throws BudgetExceeded when they are not there. */
  spend(steps = 1): void {
    this.left -= steps;
    if (this.left < 0) throw new BudgetExceeded();
  }
}
