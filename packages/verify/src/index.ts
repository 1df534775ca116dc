/** The verifier by itself: the package's entry `acoer/verify`. */
export type { Verdict } from './types';
export type { VerifyOptions } from './options';
export { verifyAnswer, verifyCompletion } from './verify';
