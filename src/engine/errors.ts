/** Converts native errors to AcoerErrors with the same code and message, the caller's stack and the cause. */
import { AcoerError, errorCode, errorMessage } from '../base/errors';
import type { ErrorCodeName } from './binding';

const NATIVE_CODES: ReadonlySet<string> = new Set<ErrorCodeName>([
  'BAD_ARGUMENT',
  'BAD_SHAPE',
  'BAD_FILE',
  'OUT_OF_MEMORY',
  'NOT_FINITE',
  'DISPOSED',
  'CANCELLED',
  'ENGINE_BUSY',
  'DEVICE',
  'LOAD_FAILED',
  'INTERNAL',
]);

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
  const { request, sample, token } = (error ?? {}) as Partial<SamplerPlace>;
  const numbers = [request, sample, token];
  return numbers.every((value) => typeof value === 'number')
    ? ({ request, sample, token } as SamplerPlace)
    : null;
}

/** `error` as an AcoerError thrown at `site`; INTERNAL when it has no engine error code. */
export function engineError(error: unknown, site: CallSite, cause: unknown = error): AcoerError {
  const code = errorCode(error);
  const known = code !== undefined && NATIVE_CODES.has(code);
  const wrapped = new AcoerError(known ? (code as ErrorCodeName) : 'INTERNAL', errorMessage(error), {
    cause,
  });
  Object.assign(wrapped, placeOf(error));
  const frames = site.stack?.slice(site.stack.indexOf('\n')) ?? '';
  wrapped.stack = `${wrapped.name} [${wrapped.code}]: ${wrapped.message}${frames}`;
  return wrapped;
}
