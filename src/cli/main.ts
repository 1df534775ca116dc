#!/usr/bin/env node
/**
 * The `acoer` command line. Results go to stdout, everything else to stderr. Exit codes: 0 done, 1 failed, 2
 * bad usage or input, 75 no server samples, 130 interrupted. A command's module is loaded only when it is used.
 */
import './needs-node';
import './early-signals';
import { Command, CommanderError, Help, type Option } from 'commander';
import { didYouMean } from '../config/nearest';
import { badUsage, errorMessage, exitCodeFor } from '../base/errors';
import { workingFolder } from '../base/folders';
import { packageVersion } from '../base/version';
import type { CommandModule } from './command';
import { commandDone, endWithOutput, watchEnding } from './ending';
import { printableMessage } from '../base/printable';
import { printNote } from './output';

/** Each name is a file in this folder that exports a `CommandModule`. In the order of README's table. */
const COMMANDS: Readonly<Record<string, string>> = {
  init: 'write a configuration, a judge, a reward and some rows to begin with',
  train: 'train a model with GRPO; without arguments, trains the embedded tiny model',
  sweep: 'train several rewards, seeds or settings over one base, and compare them',
  sft: 'fine-tune on completions of others (supervised), as a warm start for train',
  fork: 'continue a run from a checkpoint in a new folder, with another reward or seed',
  show: 'print completions of a run to read, also while it trains',
  monitor: 'rerun the collapse monitor over a recorded run or a file of metrics',
  watch: 'show runs in the browser while they train',
  report: 'write a run, or several compared, as one HTML file with figures and completions',
  replay: 'repeat a step that a run refused because something was not finite',
  plan: 'predict peak memory and time of a run',
  data: 'inspect a data set before training: prompts, gold answers, lengths, levels',
  export: 'write what a run trained as files for other programs, each compared with the run',
  push: 'push what a run trained to the Hugging Face hub, and nothing private',
  eval: 'measure accuracy and thinking length of a model on a benchmark',
  verify: 'grade answers given as JSON Lines',
  reward: 'compute rewards and advantages from JSON Lines; --list shows all rewards',
  lab: 'show what rewards do to a group: advantages, length pressure, collapse pathways',
  generate: 'answer a prompt, or sample completions for prompts given as JSON Lines',
  chat: 'talk to a model, or to what a run has made of it',
  serve: "answer OpenAI's clients with a model and what runs have made of it",
  score: 'compute log-probs and entropies of token ids given as JSON Lines',
  bench: "measure tokens per second and the ratio to this machine's floor",
  doctor: 'check what is found on this machine, what is missing, and how to fix it',
  setup: 'find or fetch libtorch and build the native addon',
};

function loadCommand(name: string): CommandModule {
  // A plain require, so that start-up loads only one command's modules.
  // eslint-disable-next-line @typescript-eslint/no-require-imports
  return require(`./${name}`) as CommandModule;
}

/** The command named in `words`: the first word that is not an option, or the one after `help`. */
function wantedCommand(words: readonly string[]): string | undefined {
  const plain = words.filter((word) => !word.startsWith('-'));
  return plain[0] === 'help' ? plain[1] : plain[0];
}

/** commander shows the general help for an unknown command with --help. @throws BAD_CONFIG */
function checkCommand(words: readonly string[]): void {
  const names = Object.keys(COMMANDS);
  const wanted = wantedCommand(words);
  const asked = words.some((word) => ['help', '-h', '--help'].includes(word));
  if (!asked || wanted === undefined || wanted === 'help' || names.includes(wanted)) return;
  throw badUsage(
    `unknown command '${wanted}'${didYouMean(wanted, names) || `; the commands are ${names.join(', ')}`}`,
  );
}

/** commander names a missing argument; what it is and may be is in its description. */
function withMeaning(text: string, command: Command | undefined): string {
  const name = /missing required argument '([^']+)'/.exec(text)?.[1];
  const argument = command?.registeredArguments.find((one) => one.name() === name);
  if (argument === undefined) return text;
  const choices = argument.argChoices === undefined ? '' : `: ${argument.argChoices.join(', ')}`;
  return `${text.trimEnd()} (${argument.description}${choices}); see acoer ${command!.name()} --help\n`;
}

const help = new Help();

/** commander's own description, without the empty default list of repeatable options. */
const describeOption = (option: Option): string =>
  help.optionDescription(option).replace(' (default: [])', '');

function buildProgram(words: readonly string[]): Command {
  const wanted = wantedCommand(words);
  const program: Command = new Command('acoer')
    .description('Trains reasoning language models to think in fewer tokens without losing accuracy.')
    .version(packageVersion())
    .exitOverride()
    .configureOutput({
      outputError: (text, write) => {
        const command = program.commands.find((one) => one.name() === wanted);
        write(printableMessage(withMeaning(text.replace(/^error: /, 'acoer: '), command)));
      },
    })
    .configureHelp({ optionDescription: describeOption })
    .showHelpAfterError(false);
  for (const [name, summary] of Object.entries(COMMANDS)) {
    const command = program.command(name).description(summary);
    if (name === wanted) loadCommand(name).define(command);
  }
  return program;
}

function reportError(error: unknown): void {
  if (process.env.ACOER_DEBUG === '1' && error instanceof Error) {
    printNote(error.stack ?? error.message);
    if (error.cause !== undefined) printNote(`cause: ${String(error.cause)}`);
    return;
  }
  printNote(`acoer: ${errorMessage(error)}`);
}

/** Runs the command in `words` (what follows `acoer`) and returns the exit code. */
export async function main(words: readonly string[]): Promise<number> {
  try {
    // Without one, libraries of libtorch end the process in the middle of a command.
    workingFolder();
    checkCommand(words);
    await buildProgram(words).parseAsync([...words], { from: 'user' });
    // Commands that finish without throwing may still report failure through process.exitCode.
    return typeof process.exitCode === 'number' ? process.exitCode : 0;
  } catch (error) {
    // commander has already printed its message.
    if (error instanceof CommanderError) return error.exitCode === 0 ? 0 : 2;
    reportError(error);
    return exitCodeFor(error);
  }
}

/** Runs the command in `words` as this process, which ends with it. */
export function runAsProcess(words: readonly string[]): void {
  endWithOutput();
  watchEnding(['acoer', wantedCommand(words)].filter(Boolean).join(' '));
  void main(words).then((code) => {
    // After an interruption do not wait for pending work, such as the timer of a reward that never answers.
    if (code === 130) process.exit(code);
    commandDone(code);
  });
}

if (require.main === module) runAsProcess(process.argv.slice(2));
