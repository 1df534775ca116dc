/**
 * Every error that a user can see has a `code`. Callers test `code`, never `instanceof`: errors of native code or
 * another realm are not instances of this realm's classes. The engine's codes are listed in `engine/binding.ts`.
 */
import type { ErrorCodeName } from '../engine/binding';

export type AcoerErrorCode =
  | ErrorCodeName
  | 'BAD_CONFIG' // configuration or command line: exit 2
  | 'BAD_INPUT' // a data, model, adapter or input file: exit 2
  | 'RUN_EXISTS' // --out is a directory that already has a run: exit 2
  | 'RUN_LOCKED' // another process is writing the run: exit 2
  | 'WRITE_FAILED' // the run directory disappeared, is full, read-only or was taken over: exit 1
  | 'COLLAPSED' // the collapse guard ended the run: exit 1
  | 'HUNG' // the watchdog ended the run: exit 1
  | 'RANK_LOST' // another process of the run ended, or is not heard any more: exit 1
  | 'RANKS_DIVERGED' // the processes of the run have other weights: exit 1
  | 'REWARD_FAILED' // a user's reward threw, timed out or returned an invalid value: exit 1
  | 'SAMPLER_FAILED' // a sampler of the user's threw, or gave a wrong completion: exit 1
  | 'SAMPLER_LOST' // no server that samples for the run can be reached: exit 75, to be resumed
  | 'LOSS_FAILED' // a loss of the user's threw, or gave wrong numbers: exit 1
  | 'JUDGE_FAILED' // a user's judge threw, timed out or returned an invalid value: exit 1
  | 'HUB' // a model or dataset could not be fetched from the Hugging Face hub: exit 2
  | 'MISSING_PACKAGE' // an optional package is not installed: exit 2
  | 'SETUP' // a tool or library is missing at set-up: exit 1
  | 'INTERRUPTED'; // exit 130

export class AcoerError extends Error {
  readonly code: AcoerErrorCode;
  constructor(code: AcoerErrorCode, message: string, options?: { cause?: unknown }) {
    super(message, options);
    this.name = 'AcoerError';
    this.code = code;
  }
}

const making =
  (code: AcoerErrorCode) =>
  (message: string, cause?: unknown): AcoerError =>
    new AcoerError(code, message, cause === undefined ? undefined : { cause });

/** Errors of the codes that are thrown most, with the error behind them if there is one. */
export const badInput = making('BAD_INPUT');
export const badUsage = making('BAD_CONFIG');
export const hubError = making('HUB');

/** The `code` of any thrown value, or undefined. */
export function errorCode(error: unknown): string | undefined {
  return typeof error === 'object' && error !== null && 'code' in error && typeof error.code === 'string'
    ? error.code
    : undefined;
}

const FILE_REASONS: Readonly<Record<string, string>> = {
  ENOENT: 'no such file',
  ENOTDIR: 'no such file',
  EISDIR: 'it is a folder',
  EACCES: 'no permission',
  EIO: 'the disk reported an error',
  ELOOP: 'its symbolic links form a circle',
  ENXIO: 'it is a socket or a device, not a regular file',
};

/** Why a file could not be read, in words for the common error codes. */
export const whyUnreadable = (error: unknown): string =>
  FILE_REASONS[errorCode(error) ?? ''] ?? errorMessage(error);

/** The error for a file of the user's that could not be read because of `cause`. */
export const unreadable = (path: string, cause: unknown): AcoerError =>
  badInput(`Cannot read ${path}: ${whyUnreadable(cause)}`, cause);

/** By the system's code: why nothing can be written, and how the engine's errors, which have no code, say it. */
const WRITE_REASONS: Readonly<Record<string, [reason: string, text?: RegExp]>> = {
  ENOSPC: ['the disk is full', /No space left on device/],
  EDQUOT: ['the disk quota is used up', /Disk quota exceeded/],
  EROFS: ['the file system is read-only', /Read-only file system/],
  EACCES: ['no permission', /Permission denied/],
  EPERM: ['no permission'],
  ENOENT: ['the folder is gone', /No such file or directory/],
  ENOTDIR: ['the folder is gone'],
  EIO: ['the disk reported an error', /Input\/output error/],
  EFBIG: [
    'the file would be larger than `ulimit -f` or its file system allows; raise the limit, or write to another disk',
    /File too large/,
  ],
};

/** The system's code for a failure to write; the engine's errors carry it only in their message. */
export function writeErrorCode(error: unknown): string | undefined {
  const code = errorCode(error);
  if (code !== undefined && code in WRITE_REASONS) return code;
  const message = errorMessage(error);
  return Object.keys(WRITE_REASONS).find((known) => WRITE_REASONS[known]![1]?.test(message));
}

/** Why something could not be written, in words for the common error codes. */
export const whyUnwritten = (error: unknown): string =>
  WRITE_REASONS[writeErrorCode(error) ?? '']?.[0] ?? errorMessage(error);

/** Characters; a library's message may quote the whole file that it could not read. */
const MAX_MESSAGE = 4_000;

/** The message of any thrown value; those of others are cut where they are very long. */
export function errorMessage(error: unknown): string {
  const message =
    typeof error === 'object' && error !== null && 'message' in error && typeof error.message === 'string'
      ? error.message
      : String(error);
  if (error instanceof AcoerError || message.length <= MAX_MESSAGE) return message;
  return `${message.slice(0, MAX_MESSAGE - 3)}...`;
}

const USAGE_CODES = new Set([
  'BAD_CONFIG',
  'BAD_INPUT',
  'BAD_FILE',
  'BAD_SHAPE',
  'BAD_ARGUMENT',
  'RUN_EXISTS',
  'RUN_LOCKED',
  'HUB',
  'MISSING_PACKAGE',
]);

/** The exit code of a command that failed with `error`. */
export function exitCodeFor(error: unknown): 1 | 2 | 75 | 130 {
  const code = errorCode(error);
  if (code === 'INTERRUPTED') return 130;
  // EX_TEMPFAIL: to be tried again.
  if (code === 'SAMPLER_LOST') return 75;
  return code !== undefined && USAGE_CODES.has(code) ? 2 : 1;
}
