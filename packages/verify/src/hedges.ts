/**
 * Words beside a value. Units, counted things and introductions are dropped; every other word changes the
 * answer: `at least 91`, `26 squared` and `the predecessor of 26` equal only the same words.
 */
import { wordSet } from './lexicon';
import {
  APPROXIMATE,
  COUNTED_NOUNS,
  COUNTED_QUALITIES,
  MEASURE_QUALITIES,
  MEASURES_NAMED,
  OPERATIONS_NAMED,
  SPACED_SYMBOLS,
  UNIT_NAMES,
  UNIT_SYMBOLS,
} from './vocabulary';

/** A predicate with or without a verb: `n \text{ even}`. */
const QUALITY = /^(?:(?:is|are) )?(even|odd|prime|composite|rational|irrational)$/;

/** Words are read as a string of one letter each, for the patterns below. More of them change the answer. */
const MAX_WORDS = 16;

const LEADS = wordSet('so thus hence therefore then finally now ok okay clearly');
const SUBJECTS = wordSet('it this that there he she they we i you which here');
const COPULAS = wordSet('is are was were equals equal becomes gives yields');
const FINDS = wordSet('get gets got obtain find found have has had conclude');
const ARTICLES = wordSet('the a an our my your its his her their');

/**
 * Classes of words before a value: Lead, Subject, Copula, Verb of finding, Article, Quality, Noun, Operation,
 * oF, for (G), counted thing (K), a letter (X), approximately (~).
 */
function beforeClass(word: string): string {
  if (word === ':' || word === '=') return ':';
  if (word === 'of') return 'F';
  if (word === 'for' || word === 'in') return 'G';
  if (LEADS.has(word)) return 'L';
  if (SUBJECTS.has(word)) return 'S';
  if (COPULAS.has(word)) return 'C';
  if (FINDS.has(word)) return 'V';
  if (ARTICLES.has(word)) return 'A';
  if (MEASURES_NAMED.has(word)) return MEASURE_QUALITIES.has(word) ? 'M' : 'N';
  if (OPERATIONS_NAMED.has(word)) return MEASURE_QUALITIES.has(word) ? 'P' : 'O';
  if (MEASURE_QUALITIES.has(word)) return 'Q';
  if (APPROXIMATE.has(word)) return '~';
  if (COUNTED_NOUNS.has(word)) return 'K';
  if (COUNTED_QUALITIES.has(word)) return 'R';
  return /^[a-z]$/.test(word) ? 'X' : '?';
}

/** N and O are heads; M and P are words that are heads and qualities. */
const NOUN_PHRASE = '(?:A?[QMP~]*[NMOP]|A?X)(?:[FG]A?[QMPR~]*[NMOPKX])*';
const BEFORE = new RegExp(
  `^(?:L*(?:${NOUN_PHRASE}(?:C:?|:)|SC:?|SV|SCA?[QMP~]*[NM]F|[C:]|A?[QMP~]*[NM]F?|A?[QMP~]*[NM]FA?[QMPR~]*[NMK]|A|))~*$`,
);

const beforeRewritten = (words: string): string =>
  words
    .replace(
      /\b(?:is |are )?(?:equal|equals|comes?|evaluates|simplifies|amounts) (?:out )?to\b(?: be)?/g,
      'is',
    )
    .replace(/\b(?:turns out to|has to|must|should|will|would) be\b/g, 'is')
    .replace(/\b(?:it|that|here)'s\b/g, 'it is');

/** Currencies may stand before their number. */
const CURRENCY =
  /^(?:usd|eur|gbp|cny|rmb|inr|jpy|cad|aud|hkd|chf|sgd|nzd|krw|brl|mxn|rs|us|hk|[$€£¥₹₽₩]|\s)+$/;

/** Classes after a value. */
function afterClass(word: string, spaced: boolean): string {
  const lower = word.toLowerCase();
  if (UNIT_SYMBOLS.has(word) || (spaced && SPACED_SYMBOLS.has(word))) return 'U';
  if (lower === 'square' || lower === 'cubic' || lower === 'sq' || lower === 'cu') return 'S';
  if (lower === 'squared' || lower === 'cubed') return 'D';
  if (lower === 'per' || lower === 'a' || lower === 'an' || lower === 'every') return 'P';
  if (lower === 'of') return 'F';
  if (lower === 'the') return 'A';
  if (lower === 'only' || lower === 'exactly' || lower === 'approximately') return '~';
  // A unit that is also a thing: two points, a stone.
  if (UNIT_NAMES.has(lower)) return COUNTED_NOUNS.has(lower) ? 'B' : 'U';
  if (COUNTED_NOUNS.has(lower)) return COUNTED_QUALITIES.has(lower) ? 'H' : 'N';
  if (/^(?:total|altogether|overall|each|apiece)$/.test(lower)) return 'T';
  if (/^(?:long|tall|high|wide|deep|thick|old|away|apart|left|remaining|fast)$/.test(lower)) return 'W';
  if (COUNTED_QUALITIES.has(lower)) return 'Q';
  if (SUBSTANCES.has(lower)) return 'M';
  return '?';
}

/** What units measure: `26 pounds of flour`, `26 years of age`. */
const SUBSTANCES = wordSet(
  'water milk juice flour sugar salt butter rice gold silver copper iron sand soil paint gas gasoline fuel oil air blood food grain ' +
    'tea coffee lemonade syrup honey cheese meat beef cream mulch gravel concrete wood wool cloth fabric grass money age length width height ' +
    'area volume time work weight distance arc solution acid alcohol electricity energy ribbon rope wire',
);

const UNITS = '(?:S?[UB]D?)+';
const THINGS = '[QH]*[NHB]{1,2}';
const AFTER = new RegExp(
  `^~?(?:(?:${UNITS}(?:${THINGS})?|${THINGS})(?:FA?(?:M|${THINGS}))?(?:P(?:${UNITS}|${THINGS}))*W?|)T?~?$`,
);

const TAIL = /\b(?:in (?:total|all)|in (?:length|width|height|area|volume|size|weight))\b/g;
/** Powers of units: `cm^2`, `m/s²`, `cm2`. */
const UNIT_POWER = /([a-zA-Zµμ°])(?:\s*\^\s*\{?\s*-?[1-3]\s*\}?|[²³]|[23](?![\d.]))/g;
const HYPHENATED = /\b(two|three|four|five|six|seven|eight|nine|ten|n)-(digit|letter|element|step|sided)\b/gi;

/** The words for comparison: lower case, without punctuation. */
const plain = (text: string): string =>
  text
    .toLowerCase()
    .replace(/[^\p{L}\p{N}'!%^*/+<>=²³-]+/gu, ' ')
    .trim();

/** `7\text{-th}` */
const ORDINAL = /^\s*-(?:st|nd|rd|th)\s*$/;

const isBefore = (words: string): boolean => {
  if (/^[\s.,:;()'"]*$/.test(words) || CURRENCY.test(words.replace(/\./g, ''))) return true;
  const read = beforeRewritten(words.replace(/['’]s\b/g, "'s"))
    .replace(/[:=]/g, ' $& ')
    .replace(/[.,()"]/g, ' ');
  const classes = read.split(/\s+/).filter((word) => word !== '');
  return classes.length <= MAX_WORDS && BEFORE.test(classes.map(beforeClass).join(''));
};

const isAfter = (text: string): boolean => {
  if (ORDINAL.test(text)) return true;
  const read = text
    .replace(UNIT_POWER, '$1 ')
    .replace(HYPHENATED, ' ')
    .replace(TAIL, ' total ')
    .replace(/\bnon-/gi, 'non')
    .replace(/\\(?:cdot|degree)|[/*·.,:;()"'’-]/g, ' ');
  const words = read.split(/\s+/).filter((word) => word !== '');
  if (words.length > MAX_WORDS) return false;
  const classes = words.map((word, i) => afterClass(word, i > 0 || /^[\s/(]/.test(text)));
  return AFTER.test(classes.join(''));
};

/** The words if they change the value beside them; null for `about`, `the answer is`, units and the like. */
export function hedgeOf(text: string, place: 'before' | 'after'): string | null {
  const short = text.slice(0, 400);
  const quality = QUALITY.exec(plain(short))?.[1];
  if (quality !== undefined) return quality;
  const known = text.length <= 400 && (place === 'before' ? isBefore(short.toLowerCase()) : isAfter(short));
  return known ? null : plain(short) || short.trim();
}

/** A word such as `about` in text that goes on with the value: `about 5.25`. */
export const APPROXIMATELY =
  /^(?:about|around|approximately|approx\.?|roughly|circa|ca\.?|exactly|precisely|only|just)\s+(?=[-+]?[.\d])/i;

/** `negative 5` is -5. */
export const isMinus = (text: string): boolean => /^\s*(?:negative|minus)\s*$/i.test(text);

const SCALES: ReadonlyMap<string, bigint> = new Map([
  ['dozen', 12n],
  ['hundred', 100n],
  ['thousand', 1_000n],
  ['million', 1_000_000n],
  ['billion', 1_000_000_000n],
  ['trillion', 1_000_000_000_000n],
]);

/** A scale at the start of the words after a value: a million and `dollars` in `5 \text{ million dollars}`. */
export function scaleOf(text: string): { factor: bigint; rest: string } | null {
  const match = /^\s*([a-z]+)(?![a-z])/i.exec(text);
  const factor = SCALES.get(match?.[1]!.toLowerCase() ?? '');
  return factor === undefined ? null : { factor, rest: text.slice(match![0].length) };
}

/** Words in the name of a value, left of `=`, that make it another value. */
const DENIES =
  /\b(?:not|never|no|non|cannot|isn'?t|aren'?t|wasn'?t|doesn'?t|can'?t|un\w*equal|unequal|other|different|distinct from|except|excluding|without|unless|outside|exceed\w*|bounds?|at (?:least|most)|than|up to|below|above|under|over|almost|nearly|within|false|wrong|incorrect|minus|plus|half|twice|double|triple|multiples?|square of|cube of|reciprocal|opposite)\b/;

/** A name that ends like this goes on with the value. */
const OPEN_ENDED =
  /(?:^| )(?:of|to|than|by|if|when|before|after|near|between|beyond|with|modulo|mod|base|log|but|root|squared?|cubed?|either|neither|maybe|perhaps|possibly)$/;

/** Whether the name of a value says that it is something else: `\text{lower bound} = 26`. */
export const denies = (name: string): boolean => {
  const words = name.slice(-400).toLowerCase();
  return DENIES.test(words) || OPEN_ENDED.test(words.replace(/[^a-z]+/g, ' ').trim());
};
