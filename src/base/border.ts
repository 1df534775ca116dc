/** Checks of what the user's program gives us: a fault is one sentence with what was wanted and found. */
import { AcoerError, badInput, badUsage, errorMessage } from './errors';
import { isRecord } from './json';

/** `value` for a message: short, and without running any of the user's code. */
export function shownValue(value: unknown): string {
  if (typeof value === 'string')
    return JSON.stringify(value.length > 60 ? `${value.slice(0, 57)}...` : value);
  if (typeof value === 'function') return 'a function';
  if (typeof value !== 'object' || value === null) return String(value);
  const kind = Object.prototype.toString.call(value).slice(8, -1);
  if (Array.isArray(value) || ArrayBuffer.isView(value)) {
    return `${kind === 'Array' ? 'a list' : `${/^[AEIOU]/.test(kind) ? 'an' : 'a'} ${kind}`} of ${(value as unknown as ArrayLike<unknown>).length ?? 0}`;
  }
  return kind === 'Object' ? 'an object' : `a ${kind}`;
}

/** The error for an argument, or a part of one, that is not what it must be. */
export const badArgument = (what: string, wanted: string, found: unknown): AcoerError =>
  new AcoerError('BAD_ARGUMENT', `${what} must be ${wanted}, not ${shownValue(found)}.`);

type Need = (what: string, value: unknown) => void;

const needs =
  (wanted: string, holds: (value: unknown) => boolean): Need =>
  (what, value) => {
    if (!holds(value)) throw badArgument(what, wanted, value);
  };

/** @throws BAD_ARGUMENT, like those below */
export const needObject = needs('an object', isRecord);
export const needString = needs('a string', (value) => typeof value === 'string');
export const needList = needs('a list', Array.isArray);
export const needFunction = needs('a function', (value) => typeof value === 'function');

/** @throws BAD_ARGUMENT unless every method of `names` is one */
export function needMethods(what: string, value: unknown, names: readonly string[]): void {
  if ((typeof value !== 'object' && typeof value !== 'function') || value === null) {
    throw badArgument(what, `an object with ${names.join(', ')}`, value);
  }
  for (const name of names) needFunction(`${what}.${name}`, (value as Record<string, unknown>)[name]);
}

/** Ok: nothing, or what an AbortController has as `signal`. @throws BAD_ARGUMENT */
export function needSignal(what: string, value: unknown): void {
  if (value === undefined) return;
  const { aborted, addEventListener, throwIfAborted } = (value ?? {}) as Partial<AbortSignal>;
  const works =
    typeof aborted === 'boolean' &&
    typeof addEventListener === 'function' &&
    typeof throwIfAborted === 'function';
  if (!works) throw badArgument(what, 'an AbortSignal', value);
}

/** What `work`, a call of the user's object, returns. @throws BAD_INPUT when it throws */
export function returned<T>(call: string, work: () => T): T {
  try {
    return work();
  } catch (cause) {
    if (cause instanceof AcoerError) throw cause;
    throw badInput(`${call} failed: ${errorMessage(cause)}`, cause);
  }
}

const MAX_NAME = 100;

/**
 * Names of rewards, losses and the like become names of metrics and of settings, so they must be readable, free of
 * the slash that separates a metric's parts, and no property that every object has.
 * @param kind as in messages: `reward`
 * @throws BAD_CONFIG
 */
export function checkName(kind: string, name: unknown): asserts name is string {
  const why = (text: string) => badUsage(`The name of a ${kind} ${text}.`);
  if (typeof name !== 'string') throw why(`must be a string, not ${shownValue(name)}`);
  if (name.trim() === '') throw why('must not be empty');
  if (name !== name.trim()) throw why(`must not begin or end with a space: ${shownValue(name)}`);
  if (name.length > MAX_NAME) throw why(`has ${name.length} characters; at most ${MAX_NAME} are allowed`);
  if (/[\p{Cc}\p{Cf}\p{Cs}\p{Zl}\p{Zp}/\\]/u.test(name)) {
    throw why(`must not contain slashes or control characters: ${shownValue(name)}`);
  }
  if (name in {}) throw why(`cannot be ${shownValue(name)}, which every JavaScript object has`);
}
