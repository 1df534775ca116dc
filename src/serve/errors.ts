/** Refusals in the form that clients of OpenAI's API expect. */
import { errorCode, errorMessage } from '../base/errors';

export class ApiError extends Error {
  constructor(
    readonly status: number,
    message: string,
    /** Of the request, that is at fault. */
    readonly param: string | null = null,
    readonly code: string | null = null,
    /** When to ask again. */
    readonly retryAfterSeconds: number | null = null,
  ) {
    super(message);
    this.name = 'ApiError';
  }
}

const TYPES: Readonly<Record<number, string>> = {
  401: 'authentication_error',
  404: 'not_found_error',
  429: 'rate_limit_error',
  500: 'server_error',
  503: 'service_unavailable_error',
};

export const errorBody = ({ status, message, param, code }: ApiError) => ({
  error: { message, type: TYPES[status] ?? 'invalid_request_error', param, code },
});

const STATUS: Readonly<Record<string, number>> = {
  BAD_ARGUMENT: 400,
  BAD_INPUT: 400,
  BAD_FILE: 400,
  BAD_CONFIG: 400,
  BAD_SHAPE: 400,
  OUT_OF_MEMORY: 503,
  DISPOSED: 503,
};

/** @param note is told of what is our fault */
export function apiError(error: unknown, note: (text: string) => void): ApiError {
  if (error instanceof ApiError) return error;
  const code = errorCode(error);
  const status = STATUS[code ?? ''] ?? 500;
  if (status === 500) note(errorMessage(error));
  return new ApiError(status, errorMessage(error), null, code ?? null);
}
