/** Whether and how a stream is coloured. */
import pc from 'picocolors';

export type Colors = ReturnType<typeof pc.createColors>;

export interface OutputStream {
  write(text: string): unknown;
  isTTY?: boolean;
  columns?: number;
  rows?: number;
}

type Environment = Readonly<Record<string, string | undefined>>;

/** A terminal that can move its cursor. */
export const isTerminal = (stream: OutputStream, env: Environment = process.env): boolean =>
  stream.isTTY === true && env.TERM !== 'dumb';

/** NO_COLOR (not empty) wins over FORCE_COLOR (not empty, not 0); otherwise terminals are coloured. */
export function colorsOf(stream: OutputStream, env: Environment = process.env): Colors {
  const set = (value: string | undefined) => value !== undefined && value !== '';
  const forced = set(env.FORCE_COLOR) && env.FORCE_COLOR !== '0';
  const refused = set(env.NO_COLOR) || env.FORCE_COLOR === '0';
  return pc.createColors(!refused && (forced || isTerminal(stream, env)));
}
