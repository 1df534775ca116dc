/** Statistics of arrays of numbers. The mean of none is NaN; the caller decides what that means. */
type Numbers = ArrayLike<number> & Iterable<number>;

export function sum(values: Numbers): number {
  let total = 0;
  for (const value of values) total += value;
  return total;
}

export function mean(values: Numbers): number {
  return sum(values) / values.length;
}

/** Standard deviation with Bessel's correction; NaN for fewer than two values. */
export function sampleStd(values: Numbers): number {
  if (values.length < 2) return NaN;
  const center = mean(values);
  let squares = 0;
  for (const value of values) squares += (value - center) ** 2;
  return Math.sqrt(squares / (values.length - 1));
}

export function minimum(values: Numbers): number {
  let least = Infinity;
  for (const value of values) if (value < least) least = value;
  return least;
}

export function maximum(values: Numbers): number {
  let most = -Infinity;
  for (const value of values) if (value > most) most = value;
  return most;
}

/** The median; NaN for no values. */
export function median(values: Numbers): number {
  const sorted = Float64Array.from(values).sort();
  const [lower, upper] = [sorted[(sorted.length - 1) >> 1] ?? NaN, sorted[sorted.length >> 1] ?? NaN];
  return (lower + upper) / 2;
}

/** The item whose value is the median, the lower one of two. `items` must not be empty. */
export function medianItem<Item>(items: readonly Item[], value: (item: Item) => number): Item {
  const sorted = [...items].sort((a, b) => value(a) - value(b));
  return sorted[(sorted.length - 1) >> 1]!;
}

/** The `q`-quantile (q in 0..1), interpolated between neighbours as in torch.quantile. */
export function quantile(values: Numbers, q: number): number {
  return quantileOfSorted(Float64Array.from(values).sort(), q);
}

/** `quantile` of values in ascending order. */
export function quantileOfSorted(sorted: ArrayLike<number>, q: number): number {
  const place = q * (sorted.length - 1);
  const below = Math.floor(place);
  const [low, high] = [sorted[below] ?? NaN, sorted[Math.min(below + 1, sorted.length - 1)] ?? NaN];
  return low + (place - below) * (high - low);
}

/** Two-sided p of a standard normal number (Abramowitz and Stegun, 7.1.26; error below 1.5e-7). */
export function normalP(z: number): number {
  const x = Math.abs(z) / Math.SQRT2;
  const t = 1 / (1 + 0.3275911 * x);
  const terms = [1.061405429, -1.453152027, 1.421413741, -0.284496736, 0.254829592];
  return terms.reduce((sum, term) => (sum + term) * t, 0) * Math.exp(-x * x);
}
