/** Shows the progress of a download from the hub on stderr. */
import type { FetchProgress } from '../hub';
import type { ModelFetchOptions } from '../models';
import { gigabytes, megabytes } from '../base/text';
import { printableLine } from '../base/printable';
import { printNote } from './output';
import type { OutputStream } from './view/colors';

const REDRAW_MS = 200;
/** The rate covers only the last seconds: a resumed download starts with bytes that took no time. */
const RATE_MS = 10_000;

const sizeText = (bytes: number): string => (bytes < 1e9 ? megabytes(bytes) : gigabytes(bytes));

function timeText(seconds: number): string {
  if (seconds < 90) return `${Math.ceil(seconds)} s`;
  return seconds < 5400 ? `${Math.ceil(seconds / 60)} min` : `${(seconds / 3600).toFixed(1)} h`;
}

/** Redraws one line on a terminal; elsewhere prints a line for every tenth of the download. */
export class DownloadView {
  private recent: { at: number; bytes: number }[] = [];
  private drawnAt = -Infinity;
  private lastTenth = -1;

  constructor(
    private readonly name: string,
    private readonly stream: OutputStream = process.stderr,
    private readonly now: () => number = () => performance.now(),
  ) {}

  readonly onProgress = ({ doneBytes, totalBytes }: FetchProgress): void => {
    const at = this.now();
    this.recent.push({ at, bytes: doneBytes });
    while (this.recent.length > 2 && at - this.recent[0]!.at > RATE_MS) this.recent.shift();
    const ended = doneBytes >= totalBytes;
    if (this.stream.isTTY === true) {
      if (!ended && at - this.drawnAt < REDRAW_MS) return;
      this.drawnAt = at;
      const line = this.line(doneBytes, totalBytes).slice(0, (this.stream.columns ?? 80) - 1);
      this.stream.write(`\r\x1b[2K${line}${ended ? '\n' : ''}`);
      return;
    }
    const tenth = totalBytes === 0 ? 10 : Math.floor((10 * doneBytes) / totalBytes);
    if (tenth > this.lastTenth) this.stream.write(`${this.line(doneBytes, totalBytes)}\n`);
    this.lastTenth = Math.max(this.lastTenth, tenth);
  };

  private line(done: number, total: number): string {
    const [first, last] = [this.recent[0]!, this.recent.at(-1)!];
    const rate = last.at > first.at ? (1000 * (last.bytes - first.bytes)) / (last.at - first.at) : 0;
    const speed = rate > 0 ? `, ${sizeText(rate)}/s` : '';
    const left = rate > 0 && done < total ? `, ${timeText((total - done) / rate)} left` : '';
    return `fetching ${printableLine(this.name, 200)}: ${sizeText(done)} of ${sizeText(total)}${speed}${left}`;
  }
}

/** Options of `resolveModel` for a command: progress and notices go to stderr. */
export function showDownload(name: string, signal?: AbortSignal): ModelFetchOptions {
  const view = new DownloadView(name);
  return {
    signal,
    onProgress: view.onProgress,
    onNotice: (message) => printNote(`acoer: ${message}`),
  };
}
