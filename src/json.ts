/** Values read from JSON, of which nothing is known yet. */

export type JsonRecord = Record<string, unknown>;

/** An object with names, and not a list. */
export const isRecord = (value: unknown): value is JsonRecord =>
  typeof value === 'object' && value !== null && !Array.isArray(value);

/** A value of a file for a message: its JSON, at most `most` characters of it. */
export function shownJson(value: unknown, most = 60): string {
  try {
    const text = JSON.stringify(value) ?? 'nothing';
    return text.length > most ? `${text.slice(0, most - 3)}...` : text;
  } catch (error) {
    // JSON.parse takes any depth, JSON.stringify does not.
    if (error instanceof RangeError) return 'a value nested too deeply to show';
    throw error;
  }
}

/** The numbers of a record that JSON can hold, and what the others were. */
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
