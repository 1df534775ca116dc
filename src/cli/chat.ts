/** `acoer chat`: a conversation with a model, or with what a run has made of it. */
import { createInterface, type Interface } from 'node:readline/promises';
import type { Command } from 'commander';
import { type AnswerStream, BASE, type ChatModel } from '../chat';
import { badUsage } from '../base/errors';
import { printable } from '../base/printable';
import type { ChatMessage } from '../base/types';
import { integer, number } from './command';
import { interruptible } from './interrupt';
import { printNote } from './output';
import { addAskedOptions, type AskedFlags, openAsked } from './serve';
import { colorsOf } from './view/colors';

interface ChatFlags extends AskedFlags {
  beside?: string;
  weights?: string;
  system?: string;
  temperature: number;
  topP: number;
  seed?: number;
  maxNewTokens?: number;
  think: boolean;
}

const HELP = `/weights NAME   whom to ask from now on: base, final, step-100, ...
/beside NAME    ask another one, too, and show both answers; /beside alone ends it
/system TEXT    say so before the conversation
/new            forget the conversation
/quit           or Ctrl-D`;

/** One conversation, which those who are asked each have their own copy of. */
class Conversation {
  private readonly turns = new Map<string, ChatMessage[]>();

  constructor(public system: string | undefined) {}

  of(name: string): ChatMessage[] {
    let turns = this.turns.get(name);
    if (turns === undefined) this.turns.set(name, (turns = []));
    return turns;
  }

  messages(name: string, question: string): ChatMessage[] {
    const system: ChatMessage[] = this.system === undefined ? [] : [{ role: 'system', content: this.system }];
    return [...system, ...this.of(name), { role: 'user', content: question }];
  }

  forget(): void {
    this.turns.clear();
  }
}

class Chat {
  private readonly colors = colorsOf(process.stdout);
  private readonly conversation: Conversation;
  private weights: string;
  private beside: string | null;

  constructor(
    private readonly model: ChatModel,
    private readonly flags: ChatFlags,
  ) {
    this.conversation = new Conversation(flags.system);
    this.weights = this.known(flags.weights ?? model.newest);
    this.beside = flags.beside === undefined ? null : this.known(flags.beside);
  }

  /** @throws BAD_CONFIG */
  private known(name: string): string {
    if (this.model.names.includes(name)) return name;
    throw badUsage(`There is no ${JSON.stringify(name)} here; there are ${this.model.names.join(', ')}.`);
  }

  get greeting(): string {
    const both = this.beside === null ? '' : ` beside ${this.beside}`;
    return `${this.weights}${both} of ${this.model.names.join(', ')}; /help for more, Ctrl-D to end`;
  }

  /** Of a line that begins with a slash. Resolves to false to end. */
  command(line: string): boolean {
    const [, name, rest = ''] = /^\/(\S*)\s*(.*)$/.exec(line) ?? [];
    if (name === 'quit' || name === 'exit') return false;
    try {
      if (name === 'weights') this.weights = this.known(rest);
      else if (name === 'beside') this.beside = rest === '' ? null : this.known(rest);
      else if (name === 'system') this.conversation.system = rest === '' ? undefined : rest;
      else if (name === 'new') this.conversation.forget();
      else printNote(HELP);
    } catch (error) {
      printNote((error as Error).message);
    }
    return true;
  }

  /** Asks all at once, and shows one answer after the other. */
  async ask(question: string, signal: AbortSignal): Promise<void> {
    const names = [...new Set([this.weights, ...(this.beside === null ? [] : [this.beside])])];
    const beganMs = performance.now();
    const { temperature, topP, seed, maxNewTokens, think } = this.flags;
    const options = { temperature, topP, seed, maxNewTokens, enableThinking: think, signal };
    const asked = names.map((name) => {
      const answer = this.model.chat(this.conversation.messages(name, question), {
        ...options,
        weights: name,
      });
      const endedMs = answer.result().then(() => performance.now() - beganMs, () => 0); // prettier-ignore
      return { name, answer, endedMs };
    });
    for (const { name, answer, endedMs } of asked) {
      if (names.length > 1) process.stdout.write(`${this.colors.bold(printable(name))}\n`);
      await this.show(answer);
      const { text, ids, thinkingTokens, thinking, finish } = await answer.result();
      const thought = thinking === '' ? '' : `, ${thinkingTokens} of thinking`;
      const cut = finish === 'length' ? ', cut off' : '';
      const seconds = ((await endedMs) / 1000).toFixed(1);
      printNote(`${ids.length} tokens${thought}, ${seconds} s${cut}`);
      this.conversation
        .of(name)
        .push({ role: 'user', content: question }, { role: 'assistant', content: text });
    }
  }

  private async show(answer: AnswerStream): Promise<void> {
    const shown = (text: string) => (process.stdout.isTTY ? printable(text) : text);
    let thinks = false;
    for await (const { thinking, text } of answer) {
      if (thinking !== '') process.stdout.write(this.colors.dim(shown(thinking)));
      thinks ||= thinking !== '';
      if (text === '') continue;
      if (thinks) process.stdout.write('\n\n');
      thinks = false;
      process.stdout.write(shown(text));
    }
    process.stdout.write('\n');
  }
}

/** Lines typed or piped in; `prompt` only where somebody types. */
async function* lines(input: Interface, prompt: string): AsyncGenerator<string> {
  if (!process.stdin.isTTY) {
    yield* input;
    return;
  }
  for (;;) {
    try {
      yield await input.question(prompt);
    } catch {
      // Ctrl-D, or the command was interrupted.
      return;
    }
  }
}

async function chat(of: string, flags: ChatFlags): Promise<void> {
  await interruptible(async (signal) => {
    await using model = await openAsked([of], flags, signal);
    const conversation = new Chat(model, flags);
    const typed = process.stdin.isTTY;
    const input = createInterface({ input: process.stdin, ...(typed && { output: process.stderr }) });
    signal.addEventListener('abort', () => input.close());
    if (typed) printNote(conversation.greeting);
    try {
      for await (const line of lines(input, '> ')) {
        if (signal.aborted) break;
        if (line.trim() === '') continue;
        if (line.startsWith('/')) {
          if (!conversation.command(line)) break;
        } else await conversation.ask(line, signal);
      }
    } finally {
      input.close();
    }
  });
}

export function define(command: Command): void {
  command
    .argument('<of>', 'a run; or a model: tiny, a folder, org/name on the hub')
    .option('--weights <name>', 'whom to ask: base, final, step-N (default: final, or the last checkpoint)')
    .option('--beside <name>', `ask another one, too: --beside ${BASE} shows what training changed`)
    .option('--system <text>', 'the system message')
    .option('--temperature <t>', '0: greedy', number(0), 0.6)
    .option(
      '--top-p <p>',
      'sample only from the most likely tokens with total probability p',
      number(0, 1),
      0.95,
    )
    .option('--seed <n>', 'seed; the same seed gives the same answers', integer(0))
    .option('--max-new-tokens <n>', 'maximum tokens per answer (default: what there is room for)', integer(1))
    .option('--no-think', 'tell the chat template not to open thinking (enable_thinking: false)')
    .addHelpText(
      'after',
      `
  acoer chat RUN --beside base
asks the trained model and the one before training, and shows both answers.
Lines from a pipe are asked one after the other.`,
    )
    .action(chat);
  addAskedOptions(command);
}
