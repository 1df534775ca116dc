/** Times of day, as minutes since midnight. */
import { TEXT_COMMAND } from './lexicon';

const SPACE = String.raw`(?:\\!|\s)*`;
const COLON = String.raw`(?:\\!|\s)*(?::|\{\s*:\s*\}|\\colon)(?:\\!|\s)*`;
const TEXT = String.raw`(?:${TEXT_COMMAND}\s*\{?\s*)?`;
const MARKED = new RegExp(
  `^(\\d{1,2})(?:${COLON}(\\d{2}))?(${SPACE})${TEXT}${SPACE}([AaPp])(\\.?)\\s*[Mm]\\.?(?![a-zA-Z])\\s*`,
);

/** The time with a.m. or p.m. that `text` begins with, and its length in the text; null if there is none. */
export function timeAt(text: string): { minutes: number; length: number } | null {
  const match = MARKED.exec(text);
  if (match === null) return null;
  const [all, hours, minutes, space, half, dot] = match as unknown as string[];
  // `5am` and `5pm` may be products; a time needs minutes, a dot, a capital or words.
  const plain = minutes === undefined && dot === '' && !all!.includes('\\text') && !all!.includes('\\m');
  if (plain && space === '' && /[ap]/.test(half!)) return null;
  const hour = Number(hours);
  if (hour < 1 || hour > 12 || Number(minutes ?? 0) > 59) return null;
  // A brace opened before the a.m. or p.m. belongs to it.
  const opened = (all!.match(/(?<!\\)\{/g) ?? []).length - (all!.match(/(?<!\\)\}/g) ?? []).length;
  const close = opened > 0 ? /^\s*\}/.exec(text.slice(all!.length)) : null;
  if (opened > 0 && close === null) return null;
  const afternoon = half!.toLowerCase() === 'p' ? 720 : 0;
  return {
    minutes: (hour % 12) * 60 + Number(minutes ?? 0) + afternoon,
    length: all!.length + (close?.[0].length ?? 0),
  };
}

/** `noon` and `midnight`. */
export function namedTime(words: string): number | null {
  const name = words.trim().toLowerCase();
  return name === 'noon' ? 720 : name === 'midnight' ? 0 : null;
}

/** Minutes since midnight of `h:mm` on the 24-hour clock; null when it can only be a quotient. */
export function clockTime(hours: string, minutes: string): number | null {
  if (!/^\d{1,2}$/.test(hours) || !/^\d{2}$/.test(minutes)) return null;
  const [h, m] = [Number(hours), Number(minutes)];
  return h < 24 && m < 60 ? 60 * h + m : null;
}
