/** What has happened to a run, newest first. */
import type { LogEntry } from '../wire';
import { fill, h } from '../../report/browser/dom';
import { grouped } from '../../base/text';

export class LogView {
  readonly element: HTMLElement;
  private readonly list = h('ol', { class: 'log', tabindex: 0, 'aria-label': 'Events, newest first' });
  private text = '';

  constructor() {
    this.element = h('section', {}, h('h2', {}, 'Events'), this.list);
    this.update([]);
  }

  update(log: readonly LogEntry[]): void {
    const text = JSON.stringify(log);
    if (text === this.text) return;
    this.text = text;
    const items = log.map(({ step, kind, text: said }) =>
      h(
        'li',
        { class: kind },
        h('span', { class: 'log-step number muted' }, step === null ? '' : grouped(step)),
        h('span', { class: 'log-text' }, said),
      ),
    );
    fill(this.list, ...(items.length > 0 ? items : [h('li', { class: 'muted' }, 'Nothing yet.')]));
  }
}
