/** What a run is doing at the moment: the phase, and the sequences being decoded. */
import type { WireProgress, WireSequence } from '../wire';
import { printable } from '../../base/printable';
import { fill, h, setText } from '../../report/browser/dom';
import { maximum } from '../../base/statistics';
import { grouped } from '../../base/text';

const PHASES: Readonly<Record<string, string>> = {
  loading: 'Loading the model',
  'base evaluation': 'Evaluating the base model',
  generate: 'Generating',
  reward: 'Grading',
  score: 'Scoring',
  train: 'Training',
  evaluation: 'Evaluating',
  checkpoint: 'Saving a checkpoint',
};

export class Flight {
  readonly element: HTMLElement;
  private readonly text = h('span');
  private readonly rate = h('span', { class: 'muted' });
  private readonly bars = h('div', { class: 'flight-bars', role: 'img' });
  private drawn: HTMLElement[] = [];
  private shape = '';

  constructor() {
    const line = h('div', { class: 'row flight-line' }, this.text, this.rate);
    this.element = h('section', { class: 'flight', 'aria-label': 'In flight' }, line, this.bars);
    this.element.hidden = true;
  }

  /** @param limit most tokens of a completion; null: unknown */
  update(progress: WireProgress['progress'], limit: number | null): void {
    this.element.hidden = progress === null;
    if (progress === null) return;
    const { phase, step, kind, done, total, tokens, sequences } = progress;
    const counted = done === null || total === null ? null : `${grouped(done)} of ${grouped(total)} done`;
    const parts = [PHASES[phase] ?? phase, kind, step > 0 ? `step ${grouped(step)}` : null, counted];
    setText(this.text, parts.filter((part) => part !== null).join(', '));
    setText(this.rate, tokens === null ? '' : `${grouped(tokens)} tokens`);
    this.showBars(sequences, limit);
  }

  private showBars(sequences: readonly WireSequence[], limit: number | null): void {
    const shape = sequences.map(({ prompt, sample }) => `${prompt}.${sample}`).join(' ');
    const longest = Math.max(1, maximum(sequences.map((sequence) => sequence.tokens)));
    if (shape !== this.shape) {
      this.shape = shape;
      this.drawn = sequences.map(({ prompt }, i) => {
        const first = i > 0 && sequences[i - 1]!.prompt !== prompt;
        return h('span', { class: first ? 'flight-bar first' : 'flight-bar' });
      });
      fill(this.bars, ...this.drawn);
    }
    this.bars.hidden = sequences.length === 0;
    // The longest one fills the height; the limit is often far above.
    sequences.forEach(({ problemId, sample, tokens }, i) => {
      const bar = this.drawn[i]!;
      bar.style.setProperty('--share', (tokens / longest).toFixed(3));
      bar.title = printable(`${problemId}, sample ${sample + 1}: ${grouped(tokens)} tokens`);
      bar.classList.toggle('near', limit !== null && tokens > 0.9 * limit);
    });
    const of = limit === null ? '' : ` of at most ${grouped(limit)}`;
    this.bars.setAttribute(
      'aria-label',
      `${sequences.length} sequences in flight, the longest has ${grouped(longest)} tokens${of}`,
    );
  }
}
