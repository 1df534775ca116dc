/** Converts native errors to AcoerErrors with the same code and message, the caller's stack and the cause. */
import { AcoerError, errorCode, errorMessage } from '../base/errors';
import { NATIVE_ERROR_CODES } from './binding';

/** The stack of a call, captured before it waits, since a native error has no JavaScript stack. */
export interface CallSite {
  stack?: string;
}

export function callSite(): CallSite {
  const site: CallSite = {};
  Error.captureStackTrace(site, callSite);
  return site;
}

/** Where the sampler's logits were not finite; attached to NOT_FINITE errors of `generate`. */
export interface SamplerPlace {
  /** Index in the list of requests. */
  request: number;
  sample: number;
  /** Index of the new token, from 0. */
  token: number;
}

function placeOf(error: unknown): SamplerPlace | null {
  const { request, sample, token } = (error ?? {}) as SamplerPlace;
  const known = [request, sample, token].every((value) => typeof value === 'number');
  return known ? { request, sample, token } : null;
}

/** `error` as an AcoerError thrown at `site`; INTERNAL when it has no engine error code. */
export function engineError(error: unknown, site: CallSite, cause: unknown = error): AcoerError {
  const code = NATIVE_ERROR_CODES.find((native) => native === errorCode(error)) ?? 'INTERNAL';
  const wrapped = new AcoerError(code, errorMessage(error), { cause });
  Object.assign(wrapped, placeOf(error));
  const frames = site.stack?.slice(site.stack.indexOf('\n')) ?? '';
  wrapped.stack = `${wrapped.name} [${wrapped.code}]: ${wrapped.message}${frames}`;
  return wrapped;
}
