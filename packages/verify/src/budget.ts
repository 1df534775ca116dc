/**
 * Limits that do not depend on the machine: every unit of work is charged before it is done, so the same
 * input gives the same verdict everywhere, and a count, not a clock, stops hostile input.
 */

/** An answer beyond these limits does not parse. */
export const MAX_TOKENS = 2_000;
export const MAX_DEPTH = 64;
export const MAX_DIGITS = 400;
export const MAX_ITEMS = 64;
/** An answer without a box is searched for only in this many characters at the end of a completion. */
export const MAX_TAIL_CHARS = 4_096;
/** Longer answers are compared as strings only. */
export const MAX_ANSWER_CHARS = 4_096;
/** Exact numbers have at most this many bits; beyond that, values are doubles. */
export const MAX_BITS = 1 << 16;

/** About ten milliseconds; a typical verdict takes a few hundred steps. */
const DEFAULT_STEPS = 30_000;

/** Thrown inside `verify` when the budget is used up; the API turns it into the status `timeout`. */
export class BudgetExceeded extends Error {
  constructor() {
    super('the verification budget is used up');
    this.name = 'BudgetExceeded';
  }
}

export class Budget {
  private left: number;

  constructor(steps: number = DEFAULT_STEPS) {
    this.left = steps;
  }

  /** Charges `steps` (one is about 300 ns); throws BudgetExceeded when fewer are left. */
  spend(steps = 1): void {
    this.left -= steps;
    if (this.left < 0) throw new BudgetExceeded();
  }
}
