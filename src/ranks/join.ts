/**
 * Joining a run: every process shows that it knows the run's token, rank 0 admits all at once, and then each connects
 * with every other. Nobody is admitted later, so a second job on the same port refuses itself and disturbs nothing.
 */
import { createHmac, randomBytes, timingSafeEqual } from 'node:crypto';
import { hostname } from 'node:os';
import { abortable } from '../base/abortable';
import { AcoerError, errorMessage } from '../base/errors';
import { isRecord } from '../base/json';
import { listed } from '../base/text';
import { packageVersion } from '../base/version';
import { isLoopback, ownAddress } from './address';
import { Beats, inTime, nameOf, type Member } from './beats';
import { GlooGroup } from './group';
import type { Launch } from './launch';
import { nativeRanks, type NativeGroup, type NativeStore } from './native';

export interface JoinOptions {
  /** How long to wait for the others. Default 300,000 ms. */
  timeoutMs?: number;
  /** Ends a process that was stopped for longer than the others wait; for programs that do nothing but the run. */
  exitWhenStopped?: boolean;
  warn?: (message: string) => void;
  signal?: AbortSignal | undefined;
}

const TIMEOUT_MS = 300_000;
const LOOK_MS = 100;
/** For a single call of the store, which answers at once or not at all. */
const CALL_MS = 10_000;
/** For the connections of all with all. */
const CONNECT_MS = 60_000;
/** After which a rank that waits alone says so. */
const SAY_MS = 10_000;

/** What a process shows to be admitted. */
interface Card extends Member {
  size: number;
  version: string;
  /** Tells this process from another with the same rank. */
  nonce: string;
  /** Of all else, with the run's token. */
  proof: string;
}

const refused = (message: string): AcoerError => new AcoerError('BAD_ARGUMENT', message);
const lost = (message: string): AcoerError => new AcoerError('RANK_LOST', message);

const proofOf = (token: string, ...words: readonly (string | number)[]): string =>
  createHmac('sha256', token).update(JSON.stringify(words)).digest('hex');

const isProof = (found: string, expected: string): boolean =>
  found.length === expected.length && timingSafeEqual(Buffer.from(found), Buffer.from(expected));

const cardProof = ({ token, id, restarts }: Launch, hello: string, card: Omit<Card, 'proof'>): string =>
  proofOf(
    token,
    'card',
    id,
    restarts,
    hello,
    card.rank,
    card.size,
    card.version,
    card.nonce,
    card.host,
    card.pid,
  );

function cardOf(text: string): Card | null {
  try {
    const card: unknown = JSON.parse(text);
    if (!isRecord(card)) return null;
    const texts = [card.host, card.version, card.nonce, card.proof];
    const numbers = [card.rank, card.size, card.pid];
    const whole = texts.every((one) => typeof one === 'string') && numbers.every(Number.isSafeInteger);
    return whole ? (card as unknown as Card) : null;
  } catch {
    return null;
  }
}

/** What is wrong with the card of `rank`, in a sentence; null: nothing. */
function faultOf(launch: Launch, hello: string, rank: number, card: Card | null): string | null {
  if (card === null) return `What introduces itself as rank ${rank} is not acoer`;
  const who = nameOf(card);
  if (card.version !== packageVersion()) return `${who} is acoer ${card.version}, rank 0 ${packageVersion()}`;
  if (card.rank !== rank || card.size !== launch.size)
    return `${who} takes the run for one of ${card.size} processes, rank 0 for one of ${launch.size}`;
  if (isProof(card.proof, cardProof(launch, hello, card))) return null;
  return `${who} does not know the run's token: give every process the same ACOER_RANKS_TOKEN`;
}

/** The exchange in the store, with a time limit around each call. */
class Door {
  private readonly endsAt: number;

  constructor(
    private readonly store: NativeStore,
    private readonly launch: Launch,
    timeoutMs: number,
    private readonly signal: AbortSignal | undefined,
  ) {
    this.endsAt = performance.now() + timeoutMs;
  }

  private get place(): string {
    return `${this.launch.host}:${this.launch.port}`;
  }

  private async call<T>(call: Promise<T>): Promise<T> {
    const answer = await inTime(
      call.then((value) => ({ value })),
      CALL_MS,
    ).catch((error: unknown) => {
      throw lost(`What listens at ${this.place} has ended (${errorMessage(error).split('\n')[0]}).`);
    });
    this.signal?.throwIfAborted();
    if (answer === undefined) throw lost(`What listens at ${this.place} does not answer.`);
    return answer.value;
  }

  /** Waits until one of the keys is there. @returns its name; null: the time is over */
  private async until(...keys: string[]): Promise<string | null> {
    for (;;) {
      for (const key of keys) if (await this.call(this.store.has(key))) return key;
      if (performance.now() > this.endsAt) return null;
      await new Promise((resolve) => setTimeout(resolve, LOOK_MS));
    }
  }

  private read = (key: string): Promise<string> => this.call(this.store.get(key));

  /** Shows this process's card. @throws BAD_ARGUMENT when its rank is taken */
  async show(member: Member): Promise<{ hello: string; nonce: string }> {
    const { rank, size } = this.launch;
    if (rank === 0) await this.call(this.store.setOnce('hello', randomBytes(16).toString('hex')));
    if ((await this.until('hello')) === null) throw lost(`Rank 0 has not joined at ${this.place}.`);
    const hello = await this.read('hello');
    const nonce = randomBytes(16).toString('hex');
    const about = { ...member, size, version: packageVersion(), nonce };
    await this.call(this.store.set(`beat/${rank}`, '0 '));
    const own = JSON.stringify({ ...about, proof: cardProof(this.launch, hello, about) });
    const standing = await this.call(this.store.setOnce(`card/${rank}`, own));
    if (standing !== own) {
      const other = cardOf(standing);
      const whose = other === null ? 'by another process' : `as ${nameOf(other)}`;
      throw refused(
        `Rank ${rank} of the run at ${this.place} is taken ${whose}: give every process a rank of its own, and every job a port of its own (MASTER_PORT).`,
      );
    }
    return { hello, nonce };
  }

  /** Rank 0: waits for every card, and tells whether all are admitted. */
  async admit(hello: string, say: (message: string) => void): Promise<Member[]> {
    const cards: Card[] = [];
    const sayAt = setTimeout(() => say(`waiting for rank ${cards.length} of ${this.launch.size}`), SAY_MS);
    try {
      for (let rank = 0; rank < this.launch.size; rank++) {
        if ((await this.until(`card/${rank}`)) === null) return await this.refuse(lost(await this.missing()));
        const card = cardOf(await this.read(`card/${rank}`));
        const fault = faultOf(this.launch, hello, rank, card);
        if (fault !== null) return await this.refuse(refused(`${fault}.`));
        cards.push(card!);
      }
    } finally {
      clearTimeout(sayAt);
    }
    const proof = proofOf(this.launch.token, 'admitted', hello, ...cards.map((card) => card.nonce));
    const members = cards.map(({ rank, host, pid }) => ({ rank, host, pid }));
    await this.call(this.store.set('admitted', JSON.stringify({ members, proof })));
    return members;
  }

  private async missing(): Promise<string> {
    const absent: number[] = [];
    for (let rank = 0; rank < this.launch.size; rank++)
      if (!(await this.call(this.store.has(`card/${rank}`)))) absent.push(rank);
    const [what, have] = absent.length > 1 ? ['Ranks', 'have'] : ['Rank', 'has'];
    return `${what} ${listed(absent.map(String))} of ${this.launch.size} ${have} not joined in time.`;
  }

  private async refuse(error: AcoerError): Promise<never> {
    await this.call(this.store.set(error.code === 'RANK_LOST' ? 'alone' : 'refused', error.message));
    throw error;
  }

  /** Other ranks: waits for rank 0's word. */
  async admitted(hello: string, nonce: string): Promise<Member[]> {
    const { size, rank, token } = this.launch;
    const word = await this.until('admitted', 'refused', 'alone');
    if (word === null) throw lost(`Rank 0 at ${this.place} has not admitted the ${size} ranks in time.`);
    if (word === 'refused') throw refused(await this.read(word));
    if (word === 'alone') throw lost(await this.read(word));
    const nonces: string[] = [];
    for (let r = 0; r < size; r++) nonces.push(cardOf(await this.read(`card/${r}`))?.nonce ?? '');
    const told: unknown = JSON.parse(await this.read(word));
    const { members, proof } = isRecord(told) ? told : {};
    const expected = proofOf(token, 'admitted', hello, ...nonces);
    if (typeof proof !== 'string' || !isProof(proof, expected) || nonces[rank] !== nonce)
      throw refused(
        `Rank 0 at ${this.place} does not know the run's token: give every process the same ACOER_RANKS_TOKEN.`,
      );
    return members as Member[];
  }
}

/** Everything that a process has open to take part. */
export class Joined {
  constructor(
    readonly launch: Launch,
    readonly members: readonly Member[],
    readonly beats: Beats,
    readonly group: GlooGroup,
    private readonly native: NativeGroup,
  ) {}

  /** After the last collective, and only then: every rank parts from its neighbour, and nothing is lost. */
  async part(): Promise<void> {
    // A neighbour that was faster is gone, and needs no word.
    await inTime(
      this.native.part().catch(() => undefined),
      CALL_MS,
    );
    this.close();
  }

  /** Tells the others that this rank ends with an error, and goes when they have heard it. */
  async fail(error: unknown): Promise<void> {
    await this.beats.fail(error);
    this.close();
  }

  close(): void {
    this.beats.close();
    this.native.close();
  }
}

async function openStore(store: NativeStore, launch: Launch, own: string, timeoutMs: number): Promise<void> {
  const { rank, host, port, id, restarts, launcherServes } = launch;
  const serves = rank === 0 && !launcherServes;
  const prefix = `acoer/${id}/${restarts}`;
  const address = { host: serves ? own : host, port, bind: serves ? own : null, prefix, timeoutMs };
  try {
    await store.open(address);
  } catch (error) {
    const [why] = errorMessage(error).split('\n');
    if (serves && /in use/.test(why!))
      throw refused(
        `Port ${port} of ${own} is in use, perhaps by another job: give every job a port of its own (MASTER_PORT).`,
      );
    throw serves ? refused(`Rank 0 ${why}.`) : lost(`Rank 0 does not answer at ${host}:${port} (${why}).`);
  }
}

async function connect(native: NativeGroup, store: NativeStore, launch: Launch, own: string): Promise<void> {
  const { rank, size } = launch;
  const done = await inTime(
    native.open({ store, rank, size, address: own }).then(() => true),
    CONNECT_MS,
  ).catch((error: unknown) => {
    throw lost(`The ranks cannot be connected from ${own} (${errorMessage(error).split('\n')[0]}).`);
  });
  if (done === undefined)
    throw lost(`The ranks could not be connected from ${own} within ${CONNECT_MS / 1000} s.`);
}

/**
 * Takes part in the run that the launcher has described.
 * @throws BAD_ARGUMENT for a process that is refused; RANK_LOST for others that do not come; LOAD_FAILED; the signal's
 * reason
 */
export async function join(launch: Launch, options: JoinOptions = {}): Promise<Joined> {
  const { timeoutMs = TIMEOUT_MS, exitWhenStopped = false, warn = () => undefined, signal } = options;
  const { rank, size, token, launcherServes } = launch;
  const own = await ownAddress(launch);
  if (rank === 0 && token === '' && !isLoopback(own))
    warn(
      'ACOER_RANKS_TOKEN is not set: any process that reaches the port of this run could take the place of a rank (docs/ranks.md).',
    );
  const { Store, Group } = nativeRanks();
  const [store, native] = [new Store(), new Group()];
  try {
    await abortable(openStore(store, launch, own, timeoutMs), signal);
    const door = new Door(store, launch, timeoutMs, signal);
    const member = { rank, host: hostname(), pid: process.pid };
    const { hello, nonce } = await door.show(member);
    const members = rank === 0 ? await door.admit(hello, warn) : await door.admitted(hello, nonce);
    await abortable(connect(native, store, launch, own), signal);
    const settings = { own: member, members, timeoutMs: launch.timeoutMs, exitWhenStopped, launcherServes };
    const beats = new Beats(store, settings);
    native.watch().catch(() => beats.neighbourLost((rank + size - 1) % size));
    const group = new GlooGroup(rank, size, native, beats.lost, (error) => beats.collectiveFailed(error));
    return new Joined(launch, members, beats, group, native);
  } catch (error) {
    // Those who wait for rank 0's word get it before the store goes.
    if (rank === 0) await new Promise((resolve) => setTimeout(resolve, 1_000));
    store.close();
    native.close();
    throw error;
  }
}
