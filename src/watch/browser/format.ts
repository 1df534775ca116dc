/** Numbers and times for people. */
import type { Change, EntryState } from '../wire';

export const percent = (fraction: number): string => `${(100 * fraction).toFixed(1)}%`;

export const grouped = (value: number): string => Math.round(value).toLocaleString('en-US');

export const tokens = (value: number): string => (value >= 100 ? grouped(value) : value.toFixed(1));

/** `2h 05m`, `4m 10s`, `35s`. */
export function duration(ms: number): string {
  const seconds = Math.max(0, Math.round(ms / 1000));
  const two = (value: number) => String(value).padStart(2, '0');
  if (seconds < 60) return `${seconds}s`;
  const minutes = Math.floor(seconds / 60);
  if (minutes < 60) return `${minutes}m ${two(seconds % 60)}s`;
  const hours = Math.floor(minutes / 60);
  return hours < 48 ? `${hours}h ${two(minutes % 60)}m` : `${Math.floor(hours / 24)}d ${hours % 24}h`;
}

/** `5m 02s ago`, coarser the longer it is. */
export function ago(at: number, now = Date.now()): string {
  const ms = now - at;
  if (ms < 60_000) return 'just now';
  const minutes = Math.floor(ms / 60_000);
  if (minutes < 60) return `${minutes} min ago`;
  const hours = Math.floor(minutes / 60);
  return hours < 48 ? `${hours} h ago` : `${Math.floor(hours / 24)} days ago`;
}

/** `-49%`, with a true minus sign. */
export function relative({ before, now }: Change): string {
  if (before === 0) return '';
  const points = Math.round(100 * (now / before - 1));
  return `${points < 0 ? '\u2212' : '+'}${Math.abs(points)}%`;
}

export const STATE_TEXT: Readonly<Record<EntryState, string>> = {
  running: 'running',
  finished: 'finished',
  stopped: 'stopped',
  killed: 'killed',
  unreadable: 'unreadable',
};
