/** Words that change the meaning of a value: `at least 91` is not 91. */

const PHRASES =
  /\b(?:at (?:least|most|the (?:least|most|earliest|latest))|(?:less|more|fewer|greater|larger|smaller|bigger|higher|lower|other|rather) than|unless|outside|no (?:more|less|fewer|greater)|not|never|isn'?t|cannot|up to|but|except|or (?:more|less|fewer|greater|higher|lower|over|under)|exceed(?:s|ing)?|almost|nearly|within|half of|twice|double|triple|(?:square|cube) root of|square of|cube of|reciprocal of|opposite of|minimum of|maximum of)\b/;
/** These mean a bound only when alone: "over" occurs in many phrases. */
const ALONE =
  /^(?:even|odd|prime|just |well )?(?:over|under|above|below|beyond|more|less|fewer|plus|minimum|maximum)$/;

/** A predicate after a name, as in `n is even`. */
const PREDICATE = /^(?:is|are) (?!equal|about|approximately|the\b)\w/;

/** A predicate with or without a verb: `n \text{ even}`. */
const QUALITY = /^(?:(?:is|are) )?(even|odd|prime|composite|rational|irrational)$/;

/**
 * The normalised words when they change the answer; null for words that may be left out, such as `about`,
 * `the answer is` and units.
 */
export function hedgeOf(text: string): string | null {
  const words = text
    .toLowerCase()
    .replace(/[^a-z' ]+/g, ' ')
    .replace(/\s+/g, ' ')
    .trim();
  const quality = QUALITY.exec(words)?.[1];
  if (quality !== undefined) return quality;
  return PREDICATE.test(words) || PHRASES.test(words) || ALONE.test(words) ? words : null;
}

/** A word such as `about` in text that goes on with the value: `about 5.25`. */
export const APPROXIMATELY =
  /^(?:about|around|approximately|approx\.?|roughly|circa|ca\.?|exactly|precisely|only|just)\s+(?=[-+]?[.\d])/i;

/** `negative 5` is -5. */
export const isMinus = (text: string): boolean => /^\s*(?:negative|minus)\s*$/i.test(text);

const SCALES: ReadonlyMap<string, bigint> = new Map([
  ['hundred', 100n],
  ['thousand', 1_000n],
  ['million', 1_000_000n],
  ['billion', 1_000_000_000n],
  ['trillion', 1_000_000_000_000n],
]);

/** The factor at the start of `text`: a million in `5 \text{ million dollars}`; null if there is none. */
export function scaleOf(text: string): bigint | null {
  const [first] = text
    .trim()
    .toLowerCase()
    .split(/[\s.,]+/);
  return SCALES.get(first ?? '') ?? null;
}
