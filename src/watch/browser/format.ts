/** Numbers and times for people. */
import { grouped } from '../../base/text';
import type { Change } from '../wire';

export const tokens = (value: number): string =>
  value >= 100 ? grouped(Math.round(value)) : value.toFixed(1);

/** `5 min ago`, coarser the longer it is. */
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

/** `a · b`, without what is missing. */
export const dotted = (parts: readonly (string | null)[]): string =>
  parts.filter((part) => part !== null && part !== '').join(' \u00b7 ');
