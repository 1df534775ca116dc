/** Values read from JSON that have not been checked yet, and the lines of JSON Lines. */

export type JsonRecord = Record<string, unknown>;

/** Whether `value` is an object and not a list. */
export const isRecord = (value: unknown): value is JsonRecord =>
  typeof value === 'object' && value !== null && !Array.isArray(value);

/** The value of a JSON text; null also for what is none. */
export function parsedJson(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return null;
  }
}

/** A value as JSON for a message, cut to `most` characters. */
export function shownJson(value: unknown, most = 60): string {
  try {
    const text = JSON.stringify(value) ?? 'nothing';
    return text.length > most ? `${text.slice(0, most - 3)}...` : text;
  } catch (error) {
    // JSON.parse accepts any depth, JSON.stringify does not.
    if (error instanceof RangeError) return 'a value nested too deeply to show';
    throw error;
  }
}

/** Splits a record into the numbers that JSON can represent and a list of the others. */
export function finiteNumbers(values: Readonly<Record<string, number | undefined>>): {
  finite: Record<string, number | undefined>;
  dropped: string[];
} {
  const entries = Object.entries(values);
  return {
    finite: Object.fromEntries(entries.filter(([, value]) => Number.isFinite(value))),
    dropped: entries
      .filter(([, value]) => !Number.isFinite(value))
      .map(([name, value]) => `${name}=${value}`),
  };
}
