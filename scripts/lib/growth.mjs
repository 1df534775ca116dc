/** Whether a process grows: looks at it while it works, and the slope of its memory over its work. */
import { readdirSync, readFileSync } from 'node:fs';

const STRETCHES = 20;
/** 97.5% quantile of Student's t with 18 degrees of freedom. */
const T_QUANTILE = 2.101;

/** Bytes of a line such as `VmRSS:  1234 kB` of /proc/PID/status. */
const bytesOf = (status, name) => 1024 * Number(new RegExp(`^${name}:\\s+(\\d+)`, 'm').exec(status)?.[1]);

/** Memory, file descriptors and threads of a process. */
export function look(pid) {
  const status = readFileSync(`/proc/${pid}/status`, 'utf8');
  return {
    residentBytes: bytesOf(status, 'VmRSS'),
    anonymousBytes: bytesOf(status, 'RssAnon'),
    descriptors: readdirSync(`/proc/${pid}/fd`).length,
    threads: Number(/^Threads:\s+(\d+)/m.exec(status)?.[1]),
  };
}

const sum = (numbers) => numbers.reduce((a, b) => a + b, 0);
const mean = (numbers) => sum(numbers) / numbers.length;

/**
 * Slope of `valueOf` over what `unit` counts and half the width of its 95% interval, both per unit. Memory does not
 * change independently from one look to the next, so both come from the means of 20 equal stretches.
 */
function slope(samples, unit, valueOf) {
  const first = samples[0][unit];
  const width = (samples.at(-1)[unit] - first + 1) / STRETCHES;
  const points = Array.from({ length: STRETCHES }, (_, i) =>
    samples.filter((sample) => Math.floor((sample[unit] - first) / width) === i),
  ).map((stretch) => ({ x: mean(stretch.map((s) => s[unit])), y: mean(stretch.map(valueOf)) }));
  const [meanX, meanY] = [mean(points.map((p) => p.x)), mean(points.map((p) => p.y))];
  const spread = sum(points.map((p) => (p.x - meanX) ** 2));
  const perUnit = sum(points.map((p) => (p.x - meanX) * (p.y - meanY))) / spread;
  const residual = sum(points.map((p) => (p.y - meanY - perUnit * (p.x - meanX)) ** 2));
  return { perUnit, half: T_QUANTILE * Math.sqrt(residual / (STRETCHES - 2) / spread) };
}

/** What `samples` (looks, each with the work done so far under the name `unit`) say of growth, in lines. */
export function growthLines(samples, unit) {
  const lines = ['descriptors', 'threads'].map((name) => {
    const counts = samples.map((sample) => sample[name]);
    return `${name}: ${Math.min(...counts)} to ${Math.max(...counts)}`;
  });
  if (samples.length < 10 * STRETCHES) return [...lines, `too few looks for a slope: ${samples.length}`];
  for (const name of ['residentBytes', 'anonymousBytes']) {
    const { perUnit, half } = slope(samples, unit, (sample) => sample[name]);
    const [low, middle, high] = [perUnit - half, perUnit, perUnit + half].map((b) => (b / 1024).toFixed(3));
    const now = (samples.at(-1)[name] / 2 ** 20).toFixed(0);
    lines.push(`${name}: ${middle} KB a ${unit} (95% ${low} to ${high}), ${now} MB at the end`);
  }
  return lines;
}
