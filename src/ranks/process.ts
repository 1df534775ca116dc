/** This process as one of several, whatever they do together: it joins once, and takes leave once. */
import { AcoerError } from '../base/errors';
import { Ranks } from '.';
import { join, type Joined, type JoinOptions } from './join';
import { launchOf } from './launch';

let joinedBefore = false;

/** null: this process works alone. @throws as `join` */
export async function joinLaunched(options: JoinOptions): Promise<Joined | null> {
  const launch = launchOf(process.env);
  if (launch === null) return null;
  if (joinedBefore)
    throw new AcoerError('BAD_ARGUMENT', 'A process of several makes one run; start others for the next.');
  joinedBefore = true;
  return join(launch, options);
}

export class RankProcess {
  readonly ranks: Ranks;

  constructor(readonly joined: Joined) {
    this.ranks = new Ranks(joined.group);
  }

  get leads(): boolean {
    return this.joined.launch.rank === 0;
  }

  /** Takes leave of the others, who know how this ends. @param error none: it has ended well */
  readonly part = (error: unknown): Promise<void> => {
    this.joined.beats.finish();
    return error === undefined ? this.joined.part() : this.joined.fail(error);
  };
}
