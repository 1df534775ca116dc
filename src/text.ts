/** Formats numbers for people. */

/** `338,784`. */
export const grouped = (value: number): string => value.toLocaleString('en-US');

/** `81.5%`, of a fraction. */
export const percent = (fraction: number, digits = 1): string => `${(100 * fraction).toFixed(digits)}%`;

/** `812.4 MB`. */
export const megabytes = (bytes: number): string => `${(bytes / 1e6).toFixed(1)} MB`;

/** `15.34 GB`; small amounts with one more digit. */
export const gigabytes = (bytes: number, digits = bytes < 1e8 ? 3 : 2): string =>
  `${(bytes / 1e9).toFixed(digits)} GB`;
