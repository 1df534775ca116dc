/** What the page knows of an opened run. */
import { Buckets, MOST_BUCKETS } from '../buckets';
import type { RunDetails, RunEntry, WireLines, WireProgress, WireSeries } from '../wire';

/** Buckets of the page may grow to this many before they are merged. */
const MOST = 2 * MOST_BUCKETS;

/** What the figures draw. */
interface Shown {
  buckets: Buckets;
  /** The lines that rollbacks took back. */
  discarded: Buckets[];
}

const shownOf = ({ buckets, discarded }: WireSeries): Shown => {
  const taken = discarded.map((one) => Buckets.from(one.buckets, Infinity));
  return { buckets: Buckets.from(buckets, MOST), discarded: taken };
};

function widenTo(width: number, buckets: Buckets): void {
  while (buckets.width < width) buckets.coarsen();
}

export class RunModel {
  entry: RunEntry | null = null;
  details: RunDetails | null = null;
  progress: WireProgress['progress'] = null;
  latest: Record<string, number> = {};
  loaded = false;
  private epoch = '';
  private lines = 0;
  private whole: Shown = { buckets: new Buckets(1, 0, MOST), discarded: [] };
  /** A part of the run in more detail. */
  private part: Shown | null = null;

  constructor(readonly id: string) {}

  /** As `parsePositions` of the server reads it. */
  get position(): string {
    return `${this.id}.${this.epoch}.${this.lines}`;
  }

  get shown(): Readonly<Shown> {
    return this.part ?? this.whole;
  }

  load(series: WireSeries): void {
    const { epoch, lines, latest } = series;
    Object.assign(this, { epoch, lines, latest, loaded: true, whole: shownOf(series), part: null });
  }

  loadPart(series: WireSeries): void {
    this.part = shownOf(series);
  }

  leavePart(): void {
    this.part = null;
  }

  /** @returns false: lines are missing, so the run has to be fetched again */
  append({ epoch, from, lines, steps, columns }: WireLines): boolean {
    if (epoch !== this.epoch || from !== this.lines) return false;
    const entries = Object.entries(columns);
    steps.forEach((step, i) => {
      const values = entries.flatMap(([metric, column]): [string, number][] => {
        const value = column[i];
        return value === null || value === undefined ? [] : [[metric, value]];
      });
      this.whole.buckets.add(step, values);
      this.part?.buckets.add(step, values);
      this.latest = { step, ...Object.fromEntries(values) };
    });
    this.lines = lines;
    this.widenDiscarded();
    return true;
  }

  /** Makes buckets at least this wide, so that several runs share their steps. */
  widen(width: number): void {
    widenTo(width, this.shown.buckets);
    this.widenDiscarded();
  }

  private widenDiscarded(): void {
    for (const shown of [this.whole, this.part]) {
      for (const taken of shown?.discarded ?? []) widenTo(shown!.buckets.width, taken);
    }
  }
}
