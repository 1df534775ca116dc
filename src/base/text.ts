/** Formats numbers and lists for people; part of the pages, so it imports nothing. */

/** `338,784`. */
export const grouped = (value: number): string => value.toLocaleString('en-US');

/** `81.5%`, of a fraction. */
export const percent = (fraction: number, digits = 1): string => `${(100 * fraction).toFixed(digits)}%`;

/** `812.4 MB`. */
export const megabytes = (bytes: number): string => `${(bytes / 1e6).toFixed(1)} MB`;

/** `15.34 GB`; small amounts with one more digit. */
export const gigabytes = (bytes: number, digits = bytes < 1e8 ? 3 : 2): string =>
  `${(bytes / 1e9).toFixed(digits)} GB`;

/** `2h 05m`, `4m 10s`, `35s`; days beyond two. */
export function duration(ms: number): string {
  const seconds = Math.max(0, Math.round(ms / 1000));
  const two = (value: number) => String(value).padStart(2, '0');
  if (seconds < 60) return `${seconds}s`;
  const minutes = Math.floor(seconds / 60);
  if (minutes < 60) return `${minutes}m ${two(seconds % 60)}s`;
  const hours = Math.floor(minutes / 60);
  return hours < 48 ? `${hours}h ${two(minutes % 60)}m` : `${Math.floor(hours / 24)}d ${hours % 24}h`;
}

/** `a, b and c`. */
export const listed = (names: readonly string[]): string =>
  names.length > 1 ? `${names.slice(0, -1).join(', ')} and ${names.at(-1)}` : names.join('');
