/** Formats a number with thousands separators for people to read: `338,784`. */
export const grouped = (value: number): string => value.toLocaleString('en-US');
