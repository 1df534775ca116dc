/** What happened at single steps, as lines across a figure. */
import type uPlot from 'uplot';
import type { Mark } from '../../report/shown';
import { h } from '../../report/browser/dom';

/** Closer marks of the same kind are one. */
const SAME_PX = 4;
/** A mark's name needs this much room. */
const NAME_PX = 62;
const NAME_LINE_PX = 14;
/** Names that would run into each other are written below each other. */
const ROWS = 3;
/** The cursor is at a mark. */
const NEAR_PX = 6;

interface Placed {
  mark: Mark;
  left: number;
}

function placed(chart: uPlot, marks: readonly Mark[]): Placed[] {
  const { min, max } = chart.scales.x!;
  const shown = marks.filter(({ step }) => step >= (min ?? -Infinity) && step <= (max ?? Infinity));
  const all = shown.map((mark) => ({ mark, left: Math.round(chart.valToPos(mark.step, 'x')) }));
  return all.filter(({ mark, left }, i) => {
    const before = all.slice(0, i).findLast((other) => other.mark.kind === mark.kind);
    return before === undefined || left - before.left >= SAME_PX;
  });
}

/** Puts the marks over the chart's plotting area; they are text, and coloured by the style sheet. */
export function drawMarks(chart: uPlot, marks: readonly Mark[]): void {
  const now = placed(chart, marks);
  const key = now.map(({ mark, left }) => `${mark.kind}${left}`).join(' ');
  if (chart.over.dataset.marks === key) return;
  chart.over.dataset.marks = key;
  for (const old of chart.over.querySelectorAll('.mark')) old.remove();
  const namedTo = new Array<number>(ROWS).fill(-Infinity);
  for (const { mark, left } of now) {
    const line = h('div', { class: `mark ${mark.kind}`, 'data-step': mark.step, 'aria-hidden': 'true' });
    line.style.left = `${left}px`;
    const row = namedTo.findIndex((to) => left >= to);
    if (row >= 0) {
      const name = h('span', { class: 'mark-name' }, mark.kind);
      name.style.top = `${row * NAME_LINE_PX - 3}px`;
      // At the right edge the name is before the line.
      if (left > chart.over.clientWidth - NAME_PX) name.classList.add('before');
      line.append(name);
      namedTo[row] = left + NAME_PX;
    }
    chart.over.append(line);
  }
}

/** The mark at a step, or closest to it within a few pixels. */
export function markNear(chart: uPlot, marks: readonly Mark[], step: number): Mark | null {
  const at = chart.valToPos(step, 'x');
  const near = placed(chart, marks).filter(({ left }) => Math.abs(left - at) <= NEAR_PX);
  return near.sort((a, b) => Math.abs(a.left - at) - Math.abs(b.left - at))[0]?.mark ?? null;
}
