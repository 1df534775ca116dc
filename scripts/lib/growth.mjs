/** Whether a process grows: looks at it while it works, and the slope of its memory over its work. */
import { readdirSync, readFileSync } from 'node:fs';

const STRETCHES = 20;
/** 97.5% quantile of Student's t with 18 degrees of freedom. */
const T_QUANTILE = 2.101;

/**
 * @typedef {ReturnType<typeof look>} Look
 * @typedef {Look & { done: number }} Sample a look, with the units of work done so far
 */

/**
 * Bytes of a line such as `VmRSS:  1234 kB` of /proc/PID/status.
 *
 * @param {string} status
 * @param {string} name
 */
const bytesOf = (status, name) => 1024 * Number(new RegExp(`^${name}:\\s+(\\d+)`, 'm').exec(status)?.[1]);

/**
 * Memory, file descriptors and threads of a process.
 *
 * @param {number} pid
 */
export function look(pid) {
  const status = readFileSync(`/proc/${pid}/status`, 'utf8');
  return {
    residentBytes: bytesOf(status, 'VmRSS'),
    anonymousBytes: bytesOf(status, 'RssAnon'),
    descriptors: readdirSync(`/proc/${pid}/fd`).length,
    threads: Number(/^Threads:\s+(\d+)/m.exec(status)?.[1]),
  };
}

/** @param {number[]} numbers */
const sum = (numbers) => numbers.reduce((a, b) => a + b, 0);
/** @param {number[]} numbers */
const mean = (numbers) => sum(numbers) / numbers.length;

/**
 * Slope of `valueOf` over the units done and half the width of its 95% interval, both per unit. Memory does not
 * change independently from one look to the next, so both come from the means of 20 equal stretches.
 *
 * @param {Sample[]} samples
 * @param {(sample: Sample) => number} valueOf
 */
function slope(samples, valueOf) {
  const [first, last] = [samples[0]?.done ?? 0, samples.at(-1)?.done ?? 0];
  const width = (last - first + 1) / STRETCHES;
  const points = Array.from({ length: STRETCHES }, (_, i) =>
    samples.filter((sample) => Math.floor((sample.done - first) / width) === i),
  ).map((stretch) => ({ x: mean(stretch.map((s) => s.done)), y: mean(stretch.map(valueOf)) }));
  const [meanX, meanY] = [mean(points.map((p) => p.x)), mean(points.map((p) => p.y))];
  const spread = sum(points.map((p) => (p.x - meanX) ** 2));
  const perUnit = sum(points.map((p) => (p.x - meanX) * (p.y - meanY))) / spread;
  const residual = sum(points.map((p) => (p.y - meanY - perUnit * (p.x - meanX)) ** 2));
  return { perUnit, half: T_QUANTILE * Math.sqrt(residual / (STRETCHES - 2) / spread) };
}

/**
 * What `samples` say of growth, in lines.
 *
 * @param {Sample[]} samples
 * @param {string} unit
 */
export function growthLines(samples, unit) {
  if (samples.length === 0) return ['nobody looked after it had settled'];
  const lines = /** @type {const} */ (['descriptors', 'threads']).map((name) => {
    const counts = samples.map((sample) => sample[name]);
    return `${name}: ${Math.min(...counts)} to ${Math.max(...counts)}`;
  });
  if (samples.length < 10 * STRETCHES) return [...lines, `too few looks for a slope: ${samples.length}`];
  for (const name of /** @type {const} */ (['residentBytes', 'anonymousBytes'])) {
    const { perUnit, half } = slope(samples, (sample) => sample[name]);
    const [low, middle, high] = [perUnit - half, perUnit, perUnit + half].map((b) => (b / 1024).toFixed(3));
    const now = ((samples.at(-1)?.[name] ?? 0) / 2 ** 20).toFixed(0);
    lines.push(`${name}: ${middle} KB a ${unit} (95% ${low} to ${high}), ${now} MB at the end`);
  }
  return lines;
}
