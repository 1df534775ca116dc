/** Several servers as one: who is asked, what follows from a fault, and when nobody is left. */
import { setTimeout as sleep } from 'node:timers/promises';
import { badUsage } from '../../base/errors';
import { minimum } from '../../base/statistics';
import { samplerFailed, samplerLost } from './failures';
import { Server, ServerFault } from './server';
import { bodyOf, readAnswer, type Answered, type ServedModel, type Wanted } from './wire';

/** A LoRA adapter that servers sample with. */
export interface PublishedAdapter {
  /** Under which servers know it. */
  name: string;
  /** In PEFT's layout, where servers see it. */
  folder: string;
}

export interface PoolParts {
  servers: readonly string[];
  /** Sent as `Authorization: Bearer`; null: none. */
  key: string | null;
  /** Most requests in flight at one server. */
  requests: number;
  /** How long to wait for a server when none answers. */
  patienceMs: number;
  /** Rows of the model's embedding. */
  vocabSize: number;
  /**
   * Checks that a server samples from the same model as we train. Called before its first request, and again once it
   * has lost its adapters.
   * @throws ServerFault
   */
  prove: (server: Server, signal?: AbortSignal) => Promise<ServedModel>;
  /** Is told in a sentence when a server is lost, or comes back. */
  warn: (message: string) => void;
}

/** A completion, and how many requests were in vain. */
export interface Completed {
  answered: Answered;
  retries: number;
}

const FIRST_WAIT_MS = 500;
const LONGEST_WAIT_MS = 30_000;
/** Between two attempts while the run begins. */
const LONGEST_OPENING_MS = 2_000;
const BUSY_MS = 1_000;
/** From this many failures in a row on a server counts as lost. */
const LOST_AFTER = 3;
/** Wrong answers to one request, and adapters lost during one, that end the run. */
const MOST_WRONG = 2;
const MOST_FORGOTTEN = 5;

/** The slowest decoding to expect, with what a server may need to begin. */
const SLOWEST_TOKENS_PER_SECOND = 3;
const BEGIN_MS = 120_000;

/** How long one completion may take. */
export const completionLimitMs = (maxNewTokens: number): number =>
  (1000 * maxNewTokens) / SLOWEST_TOKENS_PER_SECOND + BEGIN_MS;

/** A server, and what is known of it. */
class Member {
  inFlight = 0;
  /** null: not proved since it was started, as far as we know. */
  model: ServedModel | null = null;
  readonly loaded = new Set<string>();
  /** In a row. */
  failures = 0;
  private failedMs = -Infinity;
  /** Not asked before. */
  outUntilMs = 0;
  /** When it last had all that a request needs. */
  preparedMs = -Infinity;
  /** The proof and loading in progress, which all requests wait for. */
  preparing: Promise<void> | null = null;

  constructor(readonly server: Server) {}

  /** Of the failures of requests that were in flight together only the first counts. */
  failed(begunMs: number): void {
    const now = performance.now();
    if (begunMs < this.failedMs) return;
    this.failedMs = now;
    this.failures++;
    this.outUntilMs = now + Math.min(LONGEST_WAIT_MS, FIRST_WAIT_MS * 2 ** (this.failures - 1));
  }

  forget(): void {
    this.model = null;
    this.loaded.clear();
  }
}

interface Waiter {
  /** Not this one, if there is another. */
  avoid: Member | null;
  take: (member: Member) => void;
  fail: (error: Error) => void;
}

export class ServerPool {
  private readonly members: readonly Member[];
  private readonly waiters: Waiter[] = [];
  private timer: NodeJS.Timeout | undefined;
  /** Since when no server could be asked; null: one can. */
  private lostSinceMs: number | null = null;
  private lastFault = '';
  /** Servers that the user knows to be lost. */
  private readonly told = new Set<Member>();
  /** Made so far, for their ids. */
  private requests = 0;

  constructor(private readonly parts: PoolParts) {
    const { servers, key, requests } = parts;
    this.members = servers.map((url) => new Member(new Server(url, key, requests)));
  }

  /** The shortest `max_model_len` of the servers that have been proved; null: none says. */
  get maxModelLen(): number | null {
    const known = this.members.flatMap(({ model }) => model?.maxModelLen ?? []);
    return known.length === 0 ? null : minimum(known);
  }

  /**
   * Proves every server that answers within `limitMs`; the others are proved when they do.
   * @throws BAD_CONFIG for a server that is refused; SAMPLER_LOST if none answers
   */
  async open(limitMs: number, signal?: AbortSignal): Promise<void> {
    const until = performance.now() + limitMs;
    const faults = await Promise.all(this.members.map((member) => this.openMember(member, until, signal)));
    if (faults.includes(null)) return;
    throw samplerLost(
      this.members.map(({ server }, i) => `${server.address}: ${faults[i]}`).join('; '),
      limitMs,
    );
  }

  /** Why the server could not be proved yet; null: it is. */
  private async openMember(member: Member, untilMs: number, signal?: AbortSignal): Promise<string | null> {
    for (let waitMs = FIRST_WAIT_MS; ; waitMs = Math.min(2 * waitMs, LONGEST_OPENING_MS)) {
      const begunMs = performance.now();
      try {
        member.model = await this.parts.prove(member.server, signal);
        return null;
      } catch (error) {
        if (!(error instanceof ServerFault)) throw error;
        const { kind, message } = error;
        if (kind !== 'passing' && kind !== 'busy')
          throw badUsage(
            `The sampler ${member.server.address} is not accepted: ${message.replace(/[.]$/, '')}.`,
            error,
          );
        if (performance.now() + waitMs > untilMs) {
          member.failed(begunMs);
          return message;
        }
        await sleep(waitMs, undefined, { signal });
      }
    }
  }

  /** @throws SAMPLER_FAILED, SAMPLER_LOST, or the signal's reason */
  async complete(wanted: Wanted, adapter: PublishedAdapter, signal: AbortSignal): Promise<Completed> {
    let avoid: Member | null = null;
    const faults = { wrong: 0, forgotten: 0 };
    for (let retries = 0; ; retries++) {
      const member = await this.lease(avoid, signal);
      const begunMs = performance.now();
      try {
        await this.prepare(member, adapter, signal);
        const answered = await this.ask(member, wanted, adapter, signal);
        this.succeeded(member);
        return { answered, retries };
      } catch (error) {
        signal.throwIfAborted();
        if (!(error instanceof ServerFault)) throw error;
        this.take(member, error, begunMs, wanted, faults);
        avoid = member;
      } finally {
        this.release(member);
      }
    }
  }

  /** Does what follows from a fault. @throws SAMPLER_FAILED for one that ends the run */
  private take(
    member: Member,
    fault: ServerFault,
    begunMs: number,
    { prompt, sample }: Wanted,
    faults: { wrong: number; forgotten: number },
  ): void {
    const { address } = member.server;
    const fails = () =>
      samplerFailed(`${address}, sample ${sample} of prompt ${prompt} of the batch: ${fault.message}`, fault);
    this.lastFault = `${address}: ${fault.message}`;
    switch (fault.kind) {
      case 'refused':
        throw fails();
      case 'wrong':
        if (++faults.wrong >= MOST_WRONG) throw fails();
        return;
      case 'adapter':
        if (++faults.forgotten >= MOST_FORGOTTEN) throw fails();
        // Asked before the server was proved again: that it had lost its adapters is known.
        if (begunMs < member.preparedMs) return;
        if (member.model !== null)
          this.parts.warn(`The sampler ${address} has lost its adapters: it was started again.`);
        return member.forget();
      case 'busy':
        member.outUntilMs = performance.now() + (fault.retryAfterMs ?? BUSY_MS);
        break;
      case 'passing':
        member.failed(begunMs);
        if (fault.retryAfterMs !== null)
          member.outUntilMs = Math.max(member.outUntilMs, performance.now() + fault.retryAfterMs);
        if (member.failures === LOST_AFTER) this.tellLost(member, fault);
    }
    if (this.allOut()) this.lostSinceMs ??= performance.now();
  }

  private tellLost(member: Member, fault: ServerFault): void {
    if (this.told.has(member)) return;
    this.told.add(member);
    this.parts.warn(
      `The sampler ${member.server.address} does not answer (${fault.message}); it is asked again.`,
    );
  }

  private succeeded(member: Member): void {
    member.failures = 0;
    this.lostSinceMs = null;
    if (this.told.delete(member)) this.parts.warn(`The sampler ${member.server.address} answers again.`);
  }

  /** Proves the server and loads the adapter, unless that is done; all who wait for it share one attempt. */
  private prepare(member: Member, adapter: PublishedAdapter, signal: AbortSignal): Promise<void> {
    if (member.model !== null && member.loaded.has(adapter.name)) return Promise.resolve();
    member.preparing ??= this.prepareNow(member, adapter, signal).finally(() => (member.preparing = null));
    return member.preparing;
  }

  private async prepareNow(
    member: Member,
    { name, folder }: PublishedAdapter,
    signal: AbortSignal,
  ): Promise<void> {
    member.model ??= await this.parts.prove(member.server, signal);
    await member.server.load(name, folder, signal);
    member.loaded.add(name);
    member.preparedMs = performance.now();
  }

  private async ask(
    { server }: Member,
    wanted: Wanted,
    { name }: PublishedAdapter,
    signal: AbortSignal,
  ): Promise<Answered> {
    const id = `${name}-${wanted.prompt}-${wanted.sample}-${this.requests++}`;
    const body = bodyOf(wanted, name, id);
    const given = await server.complete(body, completionLimitMs(wanted.maxNewTokens), signal);
    const read = readAnswer(given, wanted, name, this.parts.vocabSize);
    if ('fault' in read) throw new ServerFault('wrong', `a wrong completion: ${read.fault}`);
    return read;
  }

  /** Unloads all adapters but those in `kept`; a server that does not answer has lost them, or will. */
  async unloadAllBut(kept: readonly string[], signal?: AbortSignal): Promise<void> {
    await Promise.all(
      this.members.flatMap((member) =>
        [...member.loaded]
          .filter((name) => !kept.includes(name))
          .map(async (name) => {
            member.loaded.delete(name);
            await member.server.unload(name, signal).catch((error: unknown) => {
              if (!(error instanceof ServerFault) && signal?.aborted !== true) throw error;
            });
          }),
      ),
    );
  }

  async close(): Promise<void> {
    clearTimeout(this.timer);
    await Promise.all(this.members.map(({ server }) => server.close()));
  }

  private allOut(): boolean {
    const now = performance.now();
    return this.members.every(({ outUntilMs }) => outUntilMs > now);
  }

  /** The server with the fewest requests that may be asked now. */
  private usable(avoid: Member | null, nowMs: number): Member | undefined {
    const free = this.members.filter(
      ({ inFlight, outUntilMs }) => outUntilMs <= nowMs && inFlight < this.parts.requests,
    );
    const others = free.filter((member) => member !== avoid);
    return (others.length > 0 ? others : free).reduce<Member | undefined>(
      (least, member) => (least === undefined || member.inFlight < least.inFlight ? member : least),
      undefined,
    );
  }

  private lease(avoid: Member | null, signal: AbortSignal): Promise<Member> {
    return new Promise((resolve, reject) => {
      const onAbort = () => {
        const place = this.waiters.indexOf(waiter);
        if (place >= 0) this.waiters.splice(place, 1);
        reject(signal.reason as Error);
      };
      const leave = () => signal.removeEventListener('abort', onAbort);
      const waiter: Waiter = {
        avoid,
        take: (member) => (leave(), resolve(member)),
        fail: (error) => (leave(), reject(error)),
      };
      if (signal.aborted) return onAbort();
      signal.addEventListener('abort', onAbort);
      this.waiters.push(waiter);
      this.serve();
    });
  }

  private release(member: Member): void {
    member.inFlight--;
    this.serve();
  }

  /** Gives servers to those who wait, in order; where all are out, later. */
  private serve(): void {
    // One time for all: a wait that ended between two looks at the clock would have neither a server nor a timer.
    const nowMs = performance.now();
    for (let next = this.waiters[0]; next !== undefined; next = this.waiters[0]) {
      const member = this.usable(next.avoid, nowMs);
      if (member === undefined) break;
      this.waiters.shift();
      member.inFlight++;
      next.take(member);
    }
    clearTimeout(this.timer);
    if (this.waiters.length === 0) return;
    const { patienceMs } = this.parts;
    const lostMs = this.lostSinceMs === null ? 0 : nowMs - this.lostSinceMs;
    if (lostMs >= patienceMs && this.members.every(({ inFlight }) => inFlight === 0)) {
      const error = samplerLost(this.lastFault, patienceMs);
      for (const { fail } of this.waiters.splice(0)) fail(error);
      return;
    }
    const outs = this.members.map(({ outUntilMs }) => outUntilMs).filter((ms) => ms > nowMs);
    if (outs.length > 0) this.timer = setTimeout(() => this.serve(), minimum(outs) - nowMs + 1);
  }
}
