/** A command as one of several processes: rank 0 has the files and prints, all work (docs/ranks.md). */
import { abortable, isCancellation } from '../base/abortable';
import { AcoerError, errorCode } from '../base/errors';
import { Ranks } from '../ranks';
import { agreeOn, factsOf } from '../ranks/agree';
import { joinLaunched, RankProcess } from '../ranks/process';
import { endIfStuck } from './interrupt';
import { printNote } from './output';

/** The processes of a command, and this one among them. */
export interface CommandRanks {
  ranks: Ranks;
  /** null: this process works alone. */
  process: RankProcess | null;
  leads: boolean;
}

/** Flags that say where a process computes and what it prints, not what comes out. */
const OWN = new Set(['device', 'threads', 'slots', 'out', 'json', 'nproc']);

/** Ends `stop` when another process is lost or is asked to end, and tells the others when this one is. */
function follow({ joined }: RankProcess, phase: string, signal: AbortSignal, stop: AbortController): void {
  const { beats, group } = joined;
  const onSignal = (): void => {
    stop.abort();
    beats.stop();
  };
  const onLost = (): void => stop.abort(beats.lost.reason);
  beats.onStop = () => stop.abort();
  beats.onTick = () => beats.at({ step: 0, phase: group.waits ? 'waiting for others' : phase });
  signal.addEventListener('abort', onSignal);
  if (signal.aborted) onSignal();
  beats.lost.addEventListener('abort', onLost);
  if (beats.lost.aborted) onLost();
}

/** What a process ends with whose calls are cancelled by a request to end, of which it may hear later, or by a loss. */
function endingOf(error: unknown, { joined }: RankProcess, stop: AbortSignal): unknown {
  const { lost } = joined.beats;
  const byLoss = lost.aborted && stop.reason === lost.reason;
  const cancelled = isCancellation(error);
  if (cancelled && byLoss) return lost.reason;
  // Others that were asked to end as well may be gone already.
  const asked = stop.aborted && !byLoss;
  if (!cancelled && !(asked && errorCode(error) === 'RANK_LOST')) return error;
  return new AcoerError('INTERRUPTED', 'interrupted', { cause: error });
}

/**
 * Runs `work` alone, or as one of the processes that a launcher has started. Its signal also fires when another process is
 * lost or asked to end.
 * @param phase what it does, in words
 * @throws as `join`; BAD_INPUT for other flags than those of rank 0
 */
export async function amongRanks<T>(
  flags: object,
  phase: string,
  signal: AbortSignal,
  work: (ranks: CommandRanks, signal: AbortSignal) => Promise<T>,
): Promise<T> {
  const joined = await joinLaunched({ warn: printNote, signal, exitWhenStopped: true });
  if (joined === null) return work({ ranks: new Ranks(), process: null, leads: true }, signal);
  const process = new RankProcess(joined);
  const stop = new AbortController();
  follow(process, phase, signal, stop);
  try {
    const { ranks, leads } = process;
    const agreed = agreeOn(ranks, 'flags', () => Promise.resolve(factsOf(flags, OWN)));
    await abortable(agreed, stop.signal);
    const made = await work({ ranks, process, leads }, stop.signal);
    // Rank 0 has more to do, and would miss the beats of those that are gone.
    await abortable(
      ranks.gather('the end', () => Promise.resolve()),
      stop.signal,
    );
    await process.part(undefined);
    return made;
  } catch (error) {
    const ending = endingOf(error, process, stop.signal);
    // All have heard of a request to end; of another error this may be the only process to know.
    await (errorCode(ending) === 'INTERRUPTED' ? process.part(ending) : joined.fail(ending));
    endIfStuck(ending);
    throw ending;
  }
}
