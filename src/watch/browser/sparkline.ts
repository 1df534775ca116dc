/** A small line without axes. */
import { svg } from '../../report/browser/dom';
import { maximum, minimum } from '../../base/statistics';

const WIDTH = 120;
const HEIGHT = 28;

/** @param label what a screen reader says */
export function sparkline(points: readonly (readonly [number, number])[], label: string): SVGElement {
  const element = svg('svg', {
    class: 'spark',
    viewBox: `0 0 ${WIDTH} ${HEIGHT}`,
    width: WIDTH,
    height: HEIGHT,
    role: 'img',
    'aria-label': label,
  });
  if (points.length < 2) return element;
  const [xs, ys] = [points.map(([x]) => x), points.map(([, y]) => y)];
  const [left, right] = [minimum(xs), maximum(xs)];
  const high = Math.max(maximum(ys), 1e-9);
  const place = ([x, y]: readonly [number, number]) =>
    `${(2 + ((x - left) / (right - left || 1)) * (WIDTH - 6)).toFixed(1)} ${(HEIGHT - 3 - (y / high) * (HEIGHT - 6)).toFixed(1)}`;
  const path = points.map(place);
  const [cx, cy] = path.at(-1)!.split(' ');
  const line = { fill: 'none', stroke: 'var(--s0)', 'stroke-width': 1.5, 'stroke-linejoin': 'round' };
  element.append(
    svg('path', { d: `M${path.join('L')}`, ...line }),
    svg('circle', { cx: cx!, cy: cy!, r: 2.5, fill: 'var(--s0)' }),
  );
  return element;
}
