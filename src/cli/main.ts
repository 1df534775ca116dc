#!/usr/bin/env node
/**
 * The `acoer` command line. Results go to stdout, everything else to stderr; the exit code says how it ended:
 * 0 done, 1 failed, 2 bad usage or input, 130 interrupted. A command's file is read only when it is asked for.
 */
import { Command, CommanderError, Help, type Option } from 'commander';
import { errorMessage, exitCodeFor } from '../errors';
import { packageVersion } from '../version';
import type { CommandModule } from './command';
import { endQuietlyOnClosedPipe } from './pipes';

interface CommandEntry {
  name: string;
  summary: string;
}

/** Each is the file of its name in this folder, a `CommandModule`. In the order of README's table. */
const COMMANDS: readonly CommandEntry[] = [
  { name: 'train', summary: 'train a model with GRPO; without arguments, the embedded tiny model' },
  { name: 'fork', summary: 'go on from a checkpoint of a run in a new folder, under another reward or seed' },
  { name: 'monitor', summary: 'show a recorded run, or a file of metrics, to the collapse monitor again' },
  { name: 'replay', summary: 'make a step again that a run refused because something was not finite' },
  { name: 'plan', summary: 'peak memory and time of a run, predicted before it starts' },
  { name: 'data', summary: 'look at a data set before training: prompts, gold answers, lengths, levels' },
  { name: 'eval', summary: 'measure accuracy and thinking length of a model on a benchmark' },
  { name: 'verify', summary: 'verdicts on answers given as JSON Lines' },
  { name: 'reward', summary: 'rewards and advantages of given completions, as JSON Lines; --list shows all' },
  { name: 'lab', summary: 'what rewards do to a group: advantages, pressure on length, collapse pathways' },
  { name: 'generate', summary: 'answer a prompt, or sample completions for prompts given as JSON Lines' },
  { name: 'score', summary: 'log-probs and entropies of given token ids, as JSON Lines' },
  { name: 'bench', summary: 'tokens per second, and the ratio to the floor measured on this machine' },
  { name: 'doctor', summary: 'what was found on this machine, what is missing, and what mends it' },
  { name: 'setup', summary: 'find or fetch libtorch and build the native addon' },
];

function loadCommand(name: string): CommandModule {
  // A plain require: start-up reads one command's modules instead of all.
  // eslint-disable-next-line @typescript-eslint/no-require-imports
  return require(`./${name}`) as CommandModule;
}

/** The command the words ask for: the first one that is no option, or the one after `help`. */
function wantedCommand(words: readonly string[]): string | undefined {
  const plain = words.filter((word) => !word.startsWith('-'));
  return plain[0] === 'help' ? plain[1] : plain[0];
}

const help = new Help();

/** As commander has it, without the empty list that options which may be repeated start from. */
const describeOption = (option: Option): string =>
  help.optionDescription(option).replace(' (default: [])', '');

function buildProgram(words: readonly string[]): Command {
  const program = new Command('acoer')
    .description('Trains reasoning language models to think in fewer tokens without losing accuracy.')
    .version(packageVersion())
    .exitOverride()
    .configureOutput({ outputError: (text, write) => write(text.replace(/^error: /, 'acoer: ')) })
    .configureHelp({ optionDescription: describeOption })
    .showHelpAfterError(false);
  const wanted = wantedCommand(words);
  for (const entry of COMMANDS) {
    const command = program.command(entry.name).description(entry.summary);
    if (entry.name === wanted) loadCommand(entry.name).define(command);
  }
  return program;
}

function reportError(error: unknown): void {
  if (process.env.ACOER_DEBUG === '1' && error instanceof Error) {
    process.stderr.write(`${error.stack ?? error.message}\n`);
    if (error.cause !== undefined) process.stderr.write(`cause: ${String(error.cause)}\n`);
    return;
  }
  process.stderr.write(`acoer: ${errorMessage(error)}\n`);
}

/** Runs the command in `words` (what follows `acoer`) and returns the exit code. */
export async function main(words: readonly string[]): Promise<number> {
  endQuietlyOnClosedPipe();
  try {
    await buildProgram(words).parseAsync([...words], { from: 'user' });
    // A command that ended without an error but not with success says so here.
    return typeof process.exitCode === 'number' ? process.exitCode : 0;
  } catch (error) {
    // commander has printed its own message already.
    if (error instanceof CommanderError) return error.exitCode === 0 ? 0 : 2;
    reportError(error);
    return exitCodeFor(error);
  }
}

if (require.main === module) {
  void main(process.argv.slice(2)).then((code) => {
    // Interrupted: what still waits, such as the timer of a reward that never answers, is not waited for.
    if (code === 130) process.exit(code);
    process.exitCode = code;
  });
}
