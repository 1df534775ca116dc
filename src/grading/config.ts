/** The verifier's options under math_verify's names, as lines of JSON give them. */
import type { ExtractionTarget, PresetName, VerifyOptions } from '#verify/options';
import { shownJson } from '../base/json';

/** An invalid config object; the message gives the name or value. */
export class BadConfig extends Error {}

type Raw = Readonly<Record<string, unknown>>;

/** Reads the value of the option `name`. Throws BadConfig. */
type Reader<T> = (name: string, value: unknown) => T;

function typed<T>(kind: 'number' | 'boolean' | 'string'): Reader<T> {
  return (name, value) => {
    if (typeof value !== kind) throw new BadConfig(`${name} must be a ${kind}`);
    return value as T;
  };
}

const number = typed<number>('number');
const boolean = typed<boolean>('boolean');
const string = typed<string>('string');

const wholeNumber: Reader<number> = (name, value) => {
  const whole = number(name, value);
  if (!Number.isInteger(whole) || whole < 0 || whole > 100)
    throw new BadConfig(`${name} must be a whole number from 0 to 100`);
  return whole;
};

function oneOf(...allowed: string[]): Reader<string> {
  return (name, value) => {
    const word = string(name, value);
    if (!allowed.includes(word)) throw new BadConfig(`${name} must be ${allowed.join(' or ')}`);
    return word;
  };
}

function optional<T>(raw: Raw, name: string, read: Reader<T>, otherwise: T): T {
  const value = raw[name];
  return value === undefined || value === null ? otherwise : read(name, value);
}

/** Options of `verify` and `parse`: the name here, and how the value is read. */
const OPTIONS: Readonly<Record<string, readonly [keyof VerifyOptions, Reader<unknown>]>> = {
  float_rounding: ['floatRounding', wholeNumber],
  precision: ['floatRounding', wholeNumber],
  numeric_precision: ['numericPrecision', wholeNumber],
  strict: ['strict', boolean],
  allow_set_relation_comp: ['allowSetRelationComp', boolean],
  extraction_mode: ['extractionMode', oneOf('any_match', 'first_match')],
  fallback_mode: ['fallbackMode', oneOf('no_fallback', 'first_match')],
};
/** Fields of extraction targets, which may also be given once for all of them. */
const SHARED = ['boxed_match_priority', 'try_extract_without_anchor', 'strings', 'lowercase'];
const TARGETS = ['match_types', 'extraction_config', 'malformed_operators', 'normalization_config'];
/** No effect here: budgets replace timeouts, and nothing throws. */
const WITHOUT_EFFECT = ['timeout_seconds', 'parsing_timeout', 'raise_on_error'];
const KNOWN = new Set([...Object.keys(OPTIONS), ...SHARED, ...TARGETS, ...WITHOUT_EFFECT]);

/**
 * VerifyOptions from an object with math_verify's names: the arguments of its `verify` and `parse`,
 * `match_types` (or `extraction_config`) as a list of `latex`, `expr` and `string` or of objects with a
 * `type` and the fields of its extraction classes. Throws BadConfig.
 */
export function optionsFromConfig(config: unknown, preset?: PresetName): VerifyOptions {
  if (config === undefined || config === null) return { preset };
  if (typeof config !== 'object' || Array.isArray(config)) throw new BadConfig('config must be an object');
  const raw = config as Raw;
  const unknown = Object.keys(raw).find((name) => !KNOWN.has(name));
  if (unknown !== undefined) throw new BadConfig(`unknown option ${unknown}`);
  const options: VerifyOptions = { preset };
  for (const [name, [own, read]] of Object.entries(OPTIONS))
    Object.assign(options, { [own]: optional(raw, name, read, options[own]) });
  const targets = raw.extraction_config ?? raw.match_types;
  if (targets !== undefined || SHARED.some((name) => name in raw)) {
    const list = (targets ?? ['latex', 'expr']) as unknown;
    options.extraction = (Array.isArray(list) ? list : [list]).map((target) => targetFrom(target, raw));
  }
  if (malformedRefused(raw) || (Array.isArray(targets) && targets.some(malformedRefused)))
    options.strictLatex = true;
  return options;
}

/** `malformed_operators: false`, also inside a normalization_config. */
function malformedRefused(value: unknown): boolean {
  if (typeof value !== 'object' || value === null) return false;
  const { malformed_operators: own, normalization_config: inner } = value as Raw;
  return own === false || malformedRefused(inner);
}

function targetFrom(value: unknown, shared: Raw): ExtractionTarget {
  const own = typeof value === 'object' && value !== null ? (value as Raw) : { type: value };
  const raw: Raw = { ...shared, ...own };
  const tryExtractWithoutAnchor = optional(raw, 'try_extract_without_anchor', boolean, true);
  switch (raw.type) {
    case 'latex': {
      const boxedMatchPriority = optional(raw, 'boxed_match_priority', number, 0);
      return { type: 'latex', tryExtractWithoutAnchor, boxedMatchPriority };
    }
    case 'expr':
      return { type: 'expr', tryExtractWithoutAnchor };
    case 'string': {
      const strings = raw.strings ?? ['A', 'B', 'C', 'D'];
      if (!Array.isArray(strings) || strings.some((one) => typeof one !== 'string'))
        throw new BadConfig('strings must be a list of strings');
      const lowercase = optional(raw, 'lowercase', boolean, true);
      return { type: 'string', strings: strings as string[], tryExtractWithoutAnchor, lowercase };
    }
    default:
      throw new BadConfig(`match_types knows latex, expr and string, not ${shownJson(raw.type)}`);
  }
}
