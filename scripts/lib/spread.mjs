/** Measurements as text. */
import statistics from '../../dist/base/statistics.js';

/**
 * The median and, in brackets, the quartiles.
 * @param {readonly number[]} numbers
 * @param {number} digits behind the point
 */
export function spread(numbers, digits) {
  const [low, median, high] = [0.25, 0.5, 0.75].map((q) => statistics.quantile(numbers, q).toFixed(digits));
  return `${median} [${low} ${high}]`;
}
