/** The verifier's options under math_verify's names, as lines of JSON give them. */
import type { ExtractionTarget, PresetName, VerifyOptions } from '#verify/options';
import { shownJson } from '../base/json';

/** An invalid config object; the message gives the name or value. */
export class BadConfig extends Error {}

type Raw = Readonly<Record<string, unknown>>;

function typed<T>(
  raw: Raw,
  name: string,
  kind: 'number' | 'boolean' | 'string',
  convert: (value: T) => void,
): void {
  const value = raw[name];
  if (value === undefined || value === null) return;
  if (typeof value !== kind) throw new BadConfig(`${name} must be a ${kind}`);
  convert(value as T);
}

/** math_verify's options that have no effect here: budgets replace timeouts, and nothing throws. */
const WITHOUT_EFFECT = new Set([
  'timeout_seconds',
  'parsing_timeout',
  'raise_on_error',
  'normalization_config',
]);
const KNOWN = new Set([
  'float_rounding', 'precision', 'numeric_precision', 'strict', 'allow_set_relation_comp', 'match_types',
  'extraction_config', 'extraction_mode', 'fallback_mode', 'boxed_match_priority', 'try_extract_without_anchor',
  'strings', 'lowercase', 'malformed_operators',
]); // prettier-ignore

/**
 * VerifyOptions from an object with math_verify's names: the arguments of its `verify` and `parse`,
 * `match_types` (or `extraction_config`) as a list of `latex`, `expr` and `string` or of objects with a
 * `type` and the fields of its extraction classes. Throws BadConfig.
 */
export function optionsFromConfig(config: unknown, preset?: PresetName): VerifyOptions {
  if (config === undefined || config === null) return { preset };
  if (typeof config !== 'object' || Array.isArray(config)) throw new BadConfig('config must be an object');
  const raw = config as Raw;
  const unknown = Object.keys(raw).find((name) => !KNOWN.has(name) && !WITHOUT_EFFECT.has(name));
  if (unknown !== undefined) throw new BadConfig(`unknown option ${unknown}`);
  const options: VerifyOptions = { preset };
  for (const name of ['float_rounding', 'precision'])
    typed<number>(raw, name, 'number', (v) => (options.floatRounding = wholeNumber(name, v)));
  typed<number>(
    raw,
    'numeric_precision',
    'number',
    (v) => (options.numericPrecision = wholeNumber('numeric_precision', v)),
  );
  typed<boolean>(raw, 'strict', 'boolean', (v) => (options.strict = v));
  typed<boolean>(raw, 'allow_set_relation_comp', 'boolean', (v) => (options.allowSetRelationComp = v));
  typed<string>(
    raw,
    'extraction_mode',
    'string',
    (v) =>
      (options.extractionMode = oneOf<'any_match' | 'first_match'>('extraction_mode', v, [
        'any_match',
        'first_match',
      ])),
  );
  typed<string>(
    raw,
    'fallback_mode',
    'string',
    (v) =>
      (options.fallbackMode = oneOf<'no_fallback' | 'first_match'>('fallback_mode', v, [
        'no_fallback',
        'first_match',
      ])),
  );
  const targets = raw.extraction_config ?? raw.match_types;
  const shared = ['boxed_match_priority', 'try_extract_without_anchor', 'strings', 'lowercase'].some(
    (name) => name in raw,
  );
  if (targets !== undefined || shared) {
    const list = (targets ?? ['latex', 'expr']) as unknown;
    options.extraction = (Array.isArray(list) ? list : [list]).map((target) => targetFrom(target, raw));
  }
  if (malformedRefused(raw) || (Array.isArray(targets) && targets.some(malformedRefused)))
    options.strictLatex = true;
  return options;
}

function wholeNumber(name: string, value: number): number {
  if (!Number.isInteger(value) || value < 0 || value > 100)
    throw new BadConfig(`${name} must be a whole number from 0 to 100`);
  return value;
}

function oneOf<T extends string>(name: string, value: string, allowed: readonly T[]): T {
  const found = allowed.find((word) => word === value);
  if (found === undefined) throw new BadConfig(`${name} must be ${allowed.join(' or ')}`);
  return found;
}

/** `malformed_operators: false`, also inside a normalization_config. */
function malformedRefused(value: unknown): boolean {
  if (typeof value !== 'object' || value === null) return false;
  const { malformed_operators: own, normalization_config: inner } = value as Raw;
  return own === false || malformedRefused(inner);
}

function targetFrom(value: unknown, shared: Raw): ExtractionTarget {
  const raw: Raw =
    typeof value === 'object' && value !== null ? { ...shared, ...value } : { ...shared, type: value };
  let anchor = true;
  typed<boolean>(raw, 'try_extract_without_anchor', 'boolean', (v) => (anchor = v));
  switch (raw.type) {
    case 'latex': {
      let boxedMatchPriority = 0;
      typed<number>(raw, 'boxed_match_priority', 'number', (v) => (boxedMatchPriority = v));
      return { type: 'latex', tryExtractWithoutAnchor: anchor, boxedMatchPriority };
    }
    case 'expr':
      return { type: 'expr', tryExtractWithoutAnchor: anchor };
    case 'string': {
      const strings = raw.strings ?? ['A', 'B', 'C', 'D'];
      if (!Array.isArray(strings) || strings.some((one) => typeof one !== 'string'))
        throw new BadConfig('strings must be a list of strings');
      let lowercase = true;
      typed<boolean>(raw, 'lowercase', 'boolean', (v) => (lowercase = v));
      return { type: 'string', strings: strings as string[], tryExtractWithoutAnchor: anchor, lowercase };
    }
    default:
      throw new BadConfig(`match_types knows latex, expr and string, not ${shownJson(raw.type)}`);
  }
}
