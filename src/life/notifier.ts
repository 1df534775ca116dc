/**
 * Tells an address of the user's what becomes of a run (docs/notify.md). The address is a secret: it stands in no file
 * and no message, and what is known of a run's settings has a word in its place.
 */
import { basename, resolve } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { ADDRESS, isAddress, REDACTED } from '../config';
import { AcoerError, badUsage, errorCode, errorMessage } from '../base/errors';
import { isRecord } from '../base/json';
import { printableLine } from '../base/printable';
import { fetchThroughProxy, readProxySettings } from '../hub/proxy';
import type { RunEvent } from './events';

/** A message has this long, second attempt included, and so has the end of a run for all that are left. */
const LIMIT_MS = 5_000;
const RETRY_MS = 500;
/** Discord takes no longer text. */
const LONGEST_TEXT = 1_900;

interface MayNotify {
  notify?: string | null | undefined;
}

/**
 * The settings with a word in place of the address, which is handed on by itself; that of the environment where they
 * name none. An address that is none stays, to be refused with the other settings.
 * @throws BAD_CONFIG for one in the environment
 */
export function apartFromAddress<Settings extends MayNotify>(
  settings: Settings,
  { ACOER_NOTIFY: own = '' }: NodeJS.ProcessEnv = process.env,
): { settings: Settings; address: string | null } {
  const { notify = null } = settings;
  const taken = (address: string) => ({ settings: { ...settings, notify: REDACTED }, address });
  if (typeof notify === 'string' && isAddress(notify)) return taken(notify);
  if (own === '' || (notify !== null && notify !== REDACTED)) return { settings, address: null };
  if (isAddress(own)) return taken(own);
  throw badUsage(`ACOER_NOTIFY must be ${ADDRESS}.`);
}

/** Why nobody will be told of a run, although its settings once named an address; null: somebody will, or none did. */
export const nobodyTold = ({ notify }: MayNotify, address: string | null): string | null =>
  address !== null || (notify ?? null) === null
    ? null
    : 'Nobody will be told how this run ends: its settings had an address in `notify`, and none is ever taken from a run; give it again with --set notify=URL or in ACOER_NOTIFY.';

export type Happening = 'collapsed' | 'finished' | 'interrupted' | 'failed';

/** What is sent. Slack shows `text`, Discord `content`. */
interface Message {
  text: string;
  content: string;
  /** Discord calls nobody by a name in the text. */
  allowed_mentions: { parse: [] };
  event: Happening;
  run: string;
  /** Steps made. */
  step: number;
  maxSteps: number;
  /** ISO 8601. */
  time: string;
}

/** The innermost code, such as ECONNREFUSED: messages of the network name the address. */
function reasonOf(error: unknown): string {
  if (error instanceof AcoerError) return errorMessage(error);
  for (let inner = error; isRecord(inner); inner = inner.cause) {
    const code = errorCode(inner);
    if (code !== undefined) return code;
  }
  return 'no connection';
}

/** One attempt. @returns why it failed, and whether another may succeed; null: it did not */
async function attempt(
  address: string,
  body: string,
  signal: AbortSignal,
): Promise<{ why: string; again: boolean } | null> {
  try {
    const response = await fetchThroughProxy(readProxySettings(process.env), address, {
      signal,
      method: 'POST',
      headers: { 'content-type': 'application/json', 'user-agent': 'acoer' },
      body,
      // Whoever answers must not choose who else is called.
      redirect: 'manual',
    });
    await response.body?.cancel();
    const { ok, status } = response;
    return ok ? null : { why: `it answered ${status}`, again: status >= 500 || status === 429 };
  } catch (error) {
    return { why: reasonOf(error), again: !(error instanceof AcoerError) };
  }
}

/** Sends in time or not at all. @param over aborts when the run waits no longer @returns why it was not sent */
async function post(address: string, body: string, over: AbortSignal): Promise<string | null> {
  const late = new AbortController();
  const signal = AbortSignal.any([late.signal, over]);
  const timer = setTimeout(() => late.abort(), LIMIT_MS);
  try {
    let failure = await attempt(address, body, signal);
    if (failure?.again === true && !signal.aborted) {
      await sleep(RETRY_MS, undefined, { signal }).catch(() => undefined);
      if (!signal.aborted) failure = await attempt(address, body, signal);
    }
    if (failure === null) return null;
    return signal.aborted ? `no answer within ${LIMIT_MS / 1000} s` : failure.why;
  } finally {
    clearTimeout(timer);
  }
}

/** `text` on one line, with no mention that a chat would obey. */
const plain = (text: string): string => printableLine(text, LONGEST_TEXT).replace(/<(?=[!@#])/g, '< ');

type Sentence = () => string | Promise<string>;

/** The messages of one run, in the order of what happened. */
export class Notifier {
  private sent: Promise<void> = Promise.resolve();
  /** Aborts when the run waits no longer. */
  private readonly over = new AbortController();

  /** @param address null: nobody is told */
  constructor(
    private readonly address: string | null,
    private readonly run: { directory: string; maxSteps: number },
    private readonly warn: (message: string) => void,
  ) {}

  /** The run goes on meanwhile. */
  event(event: RunEvent): void {
    if (event.type !== 'health' || event.change.to !== 'collapsed') return;
    const { step, reason } = event.change;
    this.tell('collapsed', step, () => `Collapsed at step ${step}. ${reason}`);
  }

  /** Tells how the run ended, and waits for that. @param sentence made only if somebody is told */
  async end(event: Exclude<Happening, 'collapsed'>, step: number, sentence: Sentence): Promise<void> {
    if (this.address === null) return;
    this.tell(event, step, sentence);
    const timer = setTimeout(() => this.over.abort(), LIMIT_MS);
    await this.sent.finally(() => clearTimeout(timer));
  }

  private tell(event: Happening, step: number, sentence: Sentence): void {
    const time = new Date().toISOString();
    this.sent = this.sent.then(async () => {
      if (this.address === null) return;
      const why = await post(this.address, await this.body(event, step, time, sentence), this.over.signal);
      if (why !== null) this.warn(`The address in notify could not be told "${event}" (${why}).`);
    });
    // What a listener of warnings throws is an error of the run's end.
    this.sent.catch(() => undefined);
  }

  private async body(event: Happening, step: number, time: string, sentence: Sentence): Promise<string> {
    const { directory, maxSteps } = this.run;
    const run = basename(resolve(directory));
    // A message without its sentence is better than none.
    const said = await Promise.resolve()
      .then(sentence)
      .catch(() => `${event}.`);
    const text = plain(`${run}: ${said}`);
    const message: Message = {
      ...{ text, content: text, allowed_mentions: { parse: [] } },
      ...{ event, run, step, maxSteps, time },
    };
    return JSON.stringify(message);
  }
}
