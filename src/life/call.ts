/**
 * The two arguments with which a program begins a run: settings, which config.json holds and a file can name, and
 * options, which only a process holds. What stands in the wrong one is named with its place.
 */
import { needFunction, needObject, needSignal, shownValue } from '../base/border';
import { didYouMean } from '../config/nearest';
import { badConfig } from '../config/problems';
import { AcoerError } from '../base/errors';
import { listed } from '../base/text';
import type { Patience } from '../run';
import type { Sink } from './sink';
import { checkSinks } from './sinks';

/** What the process that holds a run gives to it, whatever the method. */
export interface RunOptions<Event = never> {
  /** Where the run's numbers go besides its own files and the modules that the setting `sinks` names. */
  sinks?: readonly Sink[] | undefined;
  /** The run's folder. Default: runs/<date>-<name>. */
  out?: string | undefined;
  /** Folder of a run to resume under its own configuration; some settings may be changed. */
  resume?: string | undefined;
  /**
   * With `resume` or a fork: load the code in files that the run names, although nobody named them on this machine
   * (SECURITY.md). Files that the settings name need no trust.
   * @default false
   */
  trust?: boolean | undefined;
  /** How long a cancelled, hung call may take to return before the run ends without it. Default 30,000 ms. */
  hangGraceMs?: number | undefined;
  /**
   * Ends this process with exit code 1 when its main thread is blocked for longer than the watchdog allows
   * and `onHang` is `stop`: nothing else can end such a run. For programs that do nothing but the run.
   * Default false.
   */
  exitWhenBlocked?: boolean | undefined;
  /** How long to wait for space on a full disk. */
  patience?: Patience | undefined;
  /** Ends the run with INTERRUPTED; it can be resumed. */
  signal?: AbortSignal | undefined;
  onEvent?: ((event: Event) => void) | undefined;
  /** Start even if the plan says the run will not fit in memory. Default false: BAD_CONFIG before loading. */
  ignorePlan?: boolean | undefined;
}

/** A record, so that none can be forgotten. */
const NAMES: Record<Exclude<keyof RunOptions, 'sinks'>, true> = {
  out: true,
  resume: true,
  trust: true,
  signal: true,
  onEvent: true,
  ignorePlan: true,
  patience: true,
  hangGraceMs: true,
  exitWhenBlocked: true,
};

/** Options of every call that are no settings. */
export const RUN_OPTIONS: readonly string[] = Object.keys(NAMES);

/** A setting whose value a program may also give itself, as the option of the same name. */
export interface OwnForm {
  /** What the option takes: `a function`. */
  takes: string;
  is: (value: unknown) => boolean;
  /** Whether what stands among the options belongs among the settings. Default: it is not of this form. */
  byName?: (value: unknown) => boolean;
}

/** What a call takes. */
export interface CallForm {
  /** `train`, in messages. */
  call: string;
  settings: readonly string[];
  /** Those that are no settings. */
  options: readonly string[];
  own: Readonly<Record<string, OwnForm>>;
}

const isFunction = (value: unknown): boolean => typeof value === 'function';

/** Forms that several calls take. */
export const OWN_FORMS = {
  rows: { takes: 'a list of rows', is: Array.isArray },
  code: { takes: 'a function', is: isFunction },
  codes: {
    takes: 'a function or a list with one',
    is: (value) => [value].flat().some(isFunction),
  },
  objects: {
    takes: 'a list of objects',
    is: (value) => Array.isArray(value) && value.some((entry) => typeof entry !== 'string'),
    byName: (value) => Array.isArray(value) && value.some((entry) => typeof entry === 'string'),
  },
} as const satisfies Record<string, OwnForm>;

const are = (names: readonly string[], kind: string, other: string): string =>
  names.length > 1
    ? `are ${kind}s, not ${other}s`
    : `is ${kind === 'option' ? 'an' : 'a'} ${kind}, not ${other === 'option' ? 'an' : 'a'} ${other}`;

const given = (values: object): [string, unknown][] =>
  Object.entries(values).filter(([, value]) => value !== undefined);

const refused = (message: string): AcoerError => new AcoerError('BAD_ARGUMENT', message);

/** Names in `settings` that are options, or whose value is. */
export const optionsAmong = ({ options, own }: CallForm, settings: object): string[] =>
  given(settings)
    .filter(([name, value]) => options.includes(name) || (Object.hasOwn(own, name) && own[name]!.is(value)))
    .map(([name]) => name);

/** @throws BAD_ARGUMENT naming what is an option */
function checkSettings(form: CallForm, settings: object): void {
  const names = optionsAmong(form, settings);
  if (names.length === 0) return;
  const shown = names.map((name) =>
    Object.hasOwn(form.own, name) ? `${name} (${form.own[name]!.takes})` : name,
  );
  throw refused(
    `${listed(shown)} ${are(names, 'option', 'setting')}: ${form.call}(settings, { ${names.join(', ')} }).`,
  );
}

/** @throws BAD_ARGUMENT naming what is a setting, or is unknown */
function checkOptions({ call, settings, options, own }: CallForm, values: object): void {
  const unknown = given(values).filter(([name]) => !options.includes(name) && !Object.hasOwn(own, name));
  const misplaced = unknown.map(([name]) => name).filter((name) => settings.includes(name));
  if (misplaced.length > 0) {
    throw refused(
      `${listed(misplaced)} ${are(misplaced, 'setting', 'option')}: ${call}({ ${misplaced.join(', ')} }, options).`,
    );
  }
  if (unknown.length > 0) {
    const [name] = unknown[0]!;
    const known = [...options, ...Object.keys(own)];
    throw refused(
      `${call}() has no option ${name}${didYouMean(name, known) || `; it has ${known.join(', ')}.`}`,
    );
  }
  for (const [name, { takes, is, byName = (value: unknown) => !is(value) }] of Object.entries(own)) {
    const value = (values as Record<string, unknown>)[name];
    if (value === undefined || !byName(value)) continue;
    throw refused(
      `${name} must be ${takes}, not ${shownValue(value)}; by name it is a setting: ${call}({ ${name} }, options).`,
    );
  }
}

/**
 * Checks that each name stands where it belongs, and the options that every call has; values of settings are checked
 * with the configuration.
 * @throws BAD_ARGUMENT
 */
export function checkCall(form: CallForm, settings: unknown, options: unknown): void {
  needObject(`the settings of ${form.call}()`, settings);
  needObject(`the options of ${form.call}()`, options);
  checkSettings(form, settings as object);
  checkOptions(form, options as object);
  const { signal, onEvent, sinks } = options as RunOptions;
  needSignal('signal', signal);
  if (onEvent !== undefined) needFunction('onEvent', onEvent);
  checkSinks(sinks);
}

/** The same settings, read from a file or a command line, where no option can stand. @throws BAD_CONFIG */
export function onlySettings<Settings extends object>(form: CallForm, settings: Settings): Settings {
  const names = optionsAmong(form, settings);
  if (names.length > 0) throw badConfig(names.map((path) => ({ path, message: 'unknown setting' })));
  return settings;
}
