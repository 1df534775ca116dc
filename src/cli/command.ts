/** What a file of `src/cli` exports to be an `acoer` command, and options that several commands share. */
import { type Command, InvalidArgumentError, Option } from 'commander';
import type { Dtype, Quantization } from '../engine/binding';
import { type DeviceName, KV_CACHE_DTYPES, MOST_SPECULATIVE_TOKENS, QUANTIZATIONS } from '../engine/types';
import { badUsage } from '../base/errors';

export interface CommandModule {
  /** Adds arguments, options and the action to `command`, which already has its name and summary. */
  define(command: Command): void;
}

/** A commander parser for repeatable options; their default must be []. */
export const collect = (value: string, previous: readonly string[]): string[] => [...previous, value];

/** An option that may be given several times. */
export const repeatable = (flags: string, description: string): Option =>
  new Option(flags, `${description} (repeatable)`).argParser(collect).default([]);

/** Makes a maker of commander parsers for the numbers in [low, high] for which `fits` holds. */
const parserOf =
  (what: string, fits: (value: number) => boolean) =>
  (low: number, high = Number.MAX_VALUE) =>
  (text: string): number => {
    const value = Number(text);
    if (text.trim() !== '' && fits(value) && value >= low && value <= high) return value;
    const range = high === Number.MAX_VALUE ? `of at least ${low}` : `from ${low} to ${high}`;
    throw new InvalidArgumentError(`It must be ${what} ${range}.`);
  };

export const integer = parserOf('a whole number', Number.isSafeInteger);
export const number = parserOf('a number', Number.isFinite);

/** A commander parser for a path to write to; an empty one, as from an unset variable, is a mistake. */
export function path(text: string): string {
  if (text !== '') return text;
  throw new InvalidArgumentError('It must not be empty.');
}

export function deviceName(text: string): DeviceName {
  if (/^(auto|cpu|cuda(:\d+)?)$/.test(text)) return text as DeviceName;
  throw new InvalidArgumentError('It must be auto, cpu, cuda or cuda:N.');
}

/** Checked by the action: commander's own required options would hide the error of a misspelt option. */
export function required<T>(value: T | undefined, flag: string): T {
  if (value !== undefined) return value;
  throw badUsage(`${flag} is required.`);
}

export interface EngineFlags {
  device: DeviceName;
  dtype?: Dtype;
  /** null: `none` was given. */
  quantization?: Quantization | null;
  threads?: number;
}

/** `--model` and `--adapter`. */
export function addModelOptions(command: Command): Command {
  return command
    .option(
      '--model <model>',
      'tiny, a folder in Hugging Face layout, or org/name[@revision] on the hub (required)',
    )
    .option('--adapter <folder>', 'a PEFT LoRA adapter');
}

const DTYPES: readonly Dtype[] = ['float32', 'bfloat16', 'float64'];

const quantizationOption = (): Option =>
  new Option('--quantization <form>', 'base weights in fewer bits: nf4, int8 or none').argParser(
    (text: string): Quantization | null => {
      if (text === 'none') return null;
      const form = QUANTIZATIONS.find((one) => one === text);
      if (form !== undefined) return form;
      throw new InvalidArgumentError('It must be nf4, int8 or none.');
    },
  );

/** `--device` and `--threads`, for every command that computes. */
export function addDeviceOptions(command: Command): Command {
  return command
    .option('--device <device>', 'auto, cpu, cuda or cuda:N', deviceName, 'auto')
    .option('--threads <n>', 'CPU threads (default: all cores)', integer(1, 4096));
}

/** Those, `--dtype` and `--quantization`. */
export function addEngineOptions(command: Command): Command {
  return addDeviceOptions(command)
    .addOption(
      new Option('--dtype <dtype>', "number type to compute in (default: the model's own)").choices(DTYPES),
    )
    .addOption(quantizationOption());
}

/** What commands that decode keep keys and values in. */
export const kvCacheDtypeOption = (): Option =>
  new Option(
    '--kv-cache-dtype <dtype>',
    "what keys and values are kept in: auto, the model's type, or int8, half of bfloat16's memory",
  )
    .choices(KV_CACHE_DTYPES)
    .default('auto');

/** How far commands that decode speculate. */
export const numSpeculativeTokensOption = (): Option =>
  new Option(
    '--num-speculative-tokens <n>',
    `most tokens computed beside a sequence's last one, as they followed the same tokens before; results stay the same; 0: none, at most ${MOST_SPECULATIVE_TOKENS}`,
  )
    .argParser(integer(0, MOST_SPECULATIVE_TOKENS))
    .default(0);

/** The settings of `addEngineSettings`. */
export const ENGINE_SETTINGS = ['device', 'dtype', 'quantization', 'threads'] as const;

/** The same as settings of a run, which has defaults of its own. */
export function addEngineSettings(command: Command): Command {
  return command
    .option('--device <device>', 'auto, cpu, cuda or cuda:N')
    .addOption(new Option('--dtype <dtype>', 'type of the base weights').choices(DTYPES))
    .addOption(quantizationOption())
    .option('--threads <n>', 'CPU threads (default: all cores)', integer(1, 4096));
}
