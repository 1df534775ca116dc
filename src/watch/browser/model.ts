/** What the page knows of an opened run. */
import { Buckets, MOST_BUCKETS } from '../buckets';
import type { RunDetails, RunEntry, WireLines, WireProgress, WireSeries } from '../wire';

/** Buckets of the page may grow to this many before they are merged. */
const MOST = 2 * MOST_BUCKETS;

export class RunModel {
  entry: RunEntry | null = null;
  details: RunDetails | null = null;
  progress: WireProgress['progress'] = null;
  latest: Record<string, number> = {};
  loaded = false;
  private epoch = '';
  private lines = 0;
  private whole = new Buckets(1, 0, MOST);
  private wholeDiscarded: Buckets[] = [];
  /** A part of the run in more detail. */
  private part: { buckets: Buckets; discarded: Buckets[] } | null = null;

  constructor(readonly id: string) {}

  /** As `parsePositions` of the server reads it. */
  get position(): string {
    return `${this.id}.${this.epoch}.${this.lines}`;
  }

  get buckets(): Buckets {
    return this.part?.buckets ?? this.whole;
  }

  /** The lines that rollbacks took back. */
  get discarded(): readonly Buckets[] {
    return this.part?.discarded ?? this.wholeDiscarded;
  }

  get lastStep(): number {
    return this.latest.step ?? 0;
  }

  load({ epoch, lines, latest, buckets, discarded }: WireSeries): void {
    Object.assign(this, { epoch, lines, latest, loaded: true });
    this.whole = Buckets.from(buckets, MOST);
    this.wholeDiscarded = discarded.map((taken) => Buckets.from(taken.buckets, Infinity));
    this.part = null;
  }

  loadPart({ buckets, discarded }: WireSeries): void {
    this.part = {
      buckets: Buckets.from(buckets, MOST),
      discarded: discarded.map((taken) => Buckets.from(taken.buckets, Infinity)),
    };
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
      this.whole.add(step, values);
      this.part?.buckets.add(step, values);
      this.latest = { step, ...Object.fromEntries(values) };
    });
    this.lines = lines;
    this.widenDiscarded();
    return true;
  }

  /** Makes buckets at least this wide, so that several runs share their steps. */
  widen(width: number): void {
    const { buckets } = this;
    while (buckets.width < width) buckets.coarsen();
    this.widenDiscarded();
  }

  private widenDiscarded(): void {
    const widenTo = (width: number, list: readonly Buckets[]) => {
      for (const taken of list) while (taken.width < width) taken.coarsen();
    };
    widenTo(this.whole.width, this.wholeDiscarded);
    if (this.part !== null) widenTo(this.part.buckets.width, this.part.discarded);
  }
}
