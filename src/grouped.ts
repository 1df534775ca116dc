/** `338,784`: a number with its thousands apart, in every text that people read. */
export const grouped = (value: number): string => value.toLocaleString('en-US');
