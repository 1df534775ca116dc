/** What decides whether a completion is right. */
import type { z } from 'zod';
import type { Work } from '../base/deadline';
import type { Problem, Thinking, Verdict } from '../base/types';

/** A completion as a judge sees it. */
export interface JudgedCompletion extends Thinking {
  /** The whole completion, thinking included. */
  text: string;
  /** The chat template opened `<think>` in the prompt. Default false. */
  thinkOpened?: boolean;
}

/** What a judge needs of a problem's reference answer. */
export interface ReferenceRule {
  /** A row without a reference answer cannot be used. */
  readonly needsGold: boolean;
  /** Whether the reference can be judged against. */
  readsGold(gold: string): boolean;
}

/** A judge with its parameters bound. */
export interface Judge extends ReferenceRule {
  /** As in messages. */
  readonly name: string;
  /** One that comes with the program neither throws nor waits. */
  verdict(completion: JudgedCompletion, problem: Problem): Work<Verdict>;
  /**
   * A call that takes too long is ended by the judge itself (a module's thread), so the caller sets no time
   * limit.
   */
  readonly keepsTime?: boolean;
  /** Frees what it holds. Called once. */
  close?(): Promise<void>;
}

/** A built-in judge. */
export interface JudgeDefinition<Schema extends z.ZodObject = z.ZodObject> {
  readonly name: string;
  /** One line for the documentation. */
  readonly summary: string;
  readonly parameters: Schema;
  judge(parameters: z.output<Schema>): Omit<Judge, 'name'>;
}

export const verdictOf = (correct: boolean, extracted: string | null): Verdict => ({
  correct,
  status: correct ? 'correct' : 'incorrect',
  extracted,
});

/** No answer was found. */
export const UNANSWERED: Verdict = { correct: false, status: 'unparseable', extracted: null };

/** The reference cannot be judged against, so the completion is not judged. */
export const NO_REFERENCE: Verdict = { correct: false, status: 'gold-unparseable', extracted: null };
