/** `acoer serve`: models and runs behind OpenAI's API. */
import { realpathSync } from 'node:fs';
import type { Command } from 'commander';
import { ChatModel, DEFAULT_MODEL_LENGTH, type OpenModelOptions } from '../chat';
import { badUsage, unreadable } from '../base/errors';
import { readRegularFileSync } from '../base/regular-file';
import { DEFAULT_SLOTS, type KvCacheDtype } from '../engine/types';
import { newSecret } from '../http';
import { DEFAULT_PORT, DEFAULT_WAITING, startServer } from '../serve';
import {
  addEngineOptions,
  type EngineFlags,
  integer,
  kvCacheDtypeOption,
  numSpeculativeTokensOption,
  path,
  repeatable,
} from './command';
import { showDownload } from './download';
import { serving, untilAborted } from './interrupt';
import { printNote, printText } from './output';

export interface AskedFlags extends EngineFlags {
  adapter: string[];
  maxModelLen?: number;
  kvCacheDtype: KvCacheDtype;
  numSpeculativeTokens: number;
}

interface ServeFlags extends AskedFlags {
  port?: number;
  host?: string;
  keyFile?: string;
  key: boolean;
  allowLoraUpdates?: boolean;
  loraRoot?: string;
  maxSlots: number;
  maxWaiting: number;
  keptCache?: number;
}

/** `NAME=FOLDER`, several times. @throws BAD_CONFIG */
function adaptersOf(given: readonly string[]): Record<string, string> {
  const pairs = given.map((text) => {
    const [, name, folder] = /^([^=]+)=(.+)$/.exec(text) ?? [];
    if (name === undefined || folder === undefined)
      throw badUsage(`--adapter ${text} must be NAME=FOLDER: what to call the adapter, and where it is.`);
    return [name, folder] as const;
  });
  return Object.fromEntries(pairs);
}

/** Opens what the arguments name, with downloads shown. */
export function openAsked(
  of: readonly string[],
  { adapter, device, dtype, quantization, threads, ...decoding }: AskedFlags,
  signal: AbortSignal,
  more: Pick<OpenModelOptions, 'maxSlots' | 'keepBytes' | 'idleMs'> = {},
): Promise<ChatModel> {
  const { maxModelLen, kvCacheDtype, numSpeculativeTokens } = decoding;
  const asked = { device, dtype, quantization, threads, maxModelLen, kvCacheDtype, numSpeculativeTokens };
  const options = { ...asked, adapters: adaptersOf(adapter), ...more };
  return ChatModel.open(of, { ...options, ...showDownload(of[0]!, signal) });
}

/** Options of commands that ask a model. */
export function addAskedOptions(command: Command): Command {
  return addEngineOptions(command)
    .addOption(repeatable('--adapter <name=folder>', 'a PEFT LoRA adapter, and what to call it'))
    .option(
      '--max-model-len <n>',
      `most tokens of a prompt and its answer (default: the model's, at most ${DEFAULT_MODEL_LENGTH})`,
      integer(2),
    )
    .addOption(kvCacheDtypeOption())
    .addOption(numSpeculativeTokensOption());
}

const MOST_KEY_BYTES = 4096;

/** null: none. @throws BAD_CONFIG */
function keyOf({ key, keyFile }: ServeFlags): { key: string | null; made: boolean } {
  if (!key && keyFile !== undefined) throw badUsage('--no-key and --key-file cannot be combined.');
  if (!key) return { key: null, made: false };
  if (keyFile === undefined) return { key: newSecret(), made: true };
  let text: string;
  try {
    text = readRegularFileSync(keyFile, MOST_KEY_BYTES).toString('utf8').trim();
  } catch (error) {
    throw unreadable(keyFile, error);
  }
  if (!/^\S{8,}$/.test(text))
    throw badUsage(`${keyFile} must hold a key of at least 8 characters without blanks, and nothing else.`);
  return { key: text, made: false };
}

function loraRootOf({ allowLoraUpdates = false, loraRoot }: ServeFlags): string | null {
  if (!allowLoraUpdates) {
    if (loraRoot !== undefined) throw badUsage('--lora-root is for --allow-lora-updates.');
    return null;
  }
  if (loraRoot === undefined)
    throw badUsage('--allow-lora-updates needs --lora-root FOLDER: adapters are loaded from there only.');
  try {
    return realpathSync(loraRoot);
  } catch (error) {
    throw unreadable(loraRoot, error);
  }
}

async function serve(of: string[], flags: ServeFlags): Promise<void> {
  const { key, made } = keyOf(flags);
  const loraRoot = loraRootOf(flags);
  const { port, host, maxSlots, maxWaiting, keptCache } = flags;
  const keepBytes = keptCache === undefined ? undefined : keptCache * 1e6;
  await serving(async (signal) => {
    await using model = await openAsked(of, flags, signal, { maxSlots, keepBytes, idleMs: Infinity });
    const onNote = (text: string) => printNote(`acoer: ${text}`);
    const server = await startServer(model, { port, host, key, loraRoot, maxWaiting, onNote });
    printText(server.address);
    if (made) printText(`key: ${key}`);
    printNote(`models: ${model.names.join(', ')}`);
    if (host !== undefined) printNote('Other machines can reach this server, unencrypted.');
    await untilAborted(signal);
    printNote('ending; answers in progress have 30 seconds');
    await server.close();
  });
}

export function define(command: Command): void {
  command
    .argument('<of...>', 'a run, or several on one model; or a model: tiny, a folder, org/name on the hub')
    .option(
      '--port <n>',
      `port to listen on (default: ${DEFAULT_PORT}, or the next free one)`,
      integer(0, 65_535),
    )
    .option('--host <name>', 'address to listen on for other machines, e.g. 0.0.0.0 (default: this one only)')
    .option(
      '--key-file <file>',
      'file with the key that callers must show (default: one is made and printed)',
      path,
    )
    .option('--no-key', 'answer every program on this machine')
    .option('--allow-lora-updates', 'let callers load and unload adapters (/v1/load_lora_adapter)')
    .option(
      '--lora-root <folder>',
      'with --allow-lora-updates: the folder that adapters are loaded from',
      path,
    )
    .option('--max-slots <n>', 'most answers decoded together', integer(1, 4096), DEFAULT_SLOTS)
    .option(
      '--max-waiting <n>',
      'requests that may wait; further ones get 429',
      integer(0, 1e6),
      DEFAULT_WAITING,
    )
    .option(
      '--kept-cache <mb>',
      'MB for what the next turn of a conversation continues from; 0: none (default: a tenth of the free memory)',
      integer(0, 1e9),
    )
    .addHelpText(
      'after',
      `
  acoer serve RUN
answers /v1/chat/completions and /v1/completions as the models base, final and
step-N: the model before training, after it, and every checkpoint. docs/serve.md
has examples for OpenAI's clients.`,
    )
    .action(serve);
  addAskedOptions(command);
}
