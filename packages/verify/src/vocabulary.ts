/**
 * The words that may stand beside a value without changing it: units, counted things and what introduces an
 * answer. The lists are closed: a word that is on none of them is part of the answer.
 */
import { wordSet } from './lexicon';

const split = (words: string): string[] => words.split(' ');

/** `foot` and `feet` are both listed; other plurals are made. */
const plurals = (word: string): string[] => [
  word,
  `${word}s`,
  ...(/(?:s|x|z|ch|sh|o)$/.test(word) ? [`${word}es`] : []),
  ...(/[^aeiou]y$/.test(word) ? [`${word.slice(0, -1)}ies`] : []),
];

/** Units that take a prefix in front of the word: `kilometre`, `milligram`. */
const PREFIXED = split(
  'meter metre gram gramme liter litre second watt joule newton pascal volt ampere amp hertz ohm byte bit calorie ' +
    'hour mole farad henry tesla weber coulomb parsec electronvolt bar',
);
const PREFIXES = split(
  'femto pico nano micro milli centi deci deca deka hecto kilo mega giga tera peta kibi mebi gibi',
);
/** Abbreviated units that take a prefix of one letter: `km`, `mg`, `kWh`. Two letters at least. */
const SYMBOLS = split('m g l s w j n v a hz wh pa ev b bps mol cal f');
const SYMBOL_PREFIXES = ['p', 'n', 'u', 'µ', 'μ', 'm', 'c', 'd', 'k', 'g', 't', 'h'];

const SPELLED_UNITS = split(
  'inch foot yard mile furlong fathom league micron angstrom lightyear parsec astronomical ' +
    'acre hectare ounce pound ton tonne stone grain carat slug gallon quart pint cup tablespoon teaspoon bushel barrel peck ' +
    'minute day week fortnight month year decade century millennium ' +
    'degree radian gradian steradian arcminute arcsecond revolution rotation turn cycle rpm ' +
    'celsius fahrenheit kelvin knot mph kph dollar buck cent penny nickel dime quid pence euro yuan yen rupee ruble rouble ' +
    'peso franc krona kronor krone baht dinar dirham lira rand shekel forint zloty shilling mark farthing ' +
    'pound sterling renminbi unit point lumen lux candela sievert becquerel gray dyne erg torr atmosphere horsepower ' +
    'decibel baud pixel dpi fps kilocalorie mole molar kilowatthour',
);
const IRREGULAR_UNITS = split(
  'feet inches in ft yd yds mi nmi ac ha oz lb lbs gal qt pt tbsp tsp cc sec secs min mins hr hrs wk wks mo yr yrs ' +
    'deg rad rads usd eur gbp cny rmb inr jpy cad aud hkd chf sgd nzd krw brl mxn rs centuries pennies gm gms kgs kms cms mms kmh kmph psi ' +
    'kph mph rpm atm au ly dal fl kwhr sqft sqm millennia hertz celsius lux siemens dba moles amu da',
);

/** Units of two letters or more, in lower case. */
export const UNIT_NAMES: ReadonlySet<string> = new Set([
  ...SPELLED_UNITS.flatMap(plurals),
  ...PREFIXED.flatMap((unit) => ['', ...PREFIXES].flatMap((prefix) => plurals(prefix + unit))),
  ...SYMBOLS.flatMap((unit) => SYMBOL_PREFIXES.map((prefix) => prefix + unit)).filter(
    // Decimal dividers and abbreviations that are words of another meaning.
    (unit) => !['mb', 'pb', 'nb', 'kb', 'cb', 'db', 'hb', 'tb', 'gb', 'ub', 'mn', 'tn'].includes(unit),
  ),
  ...split('kb mb gb tb mev kev gev mwh gwh kwh wh hz ev mol cal pa mbps kbps gbps nm mn kn'),
  ...IRREGULAR_UNITS,
]);

/** Units of one letter or sign, as they are written. */
export const UNIT_SYMBOLS: ReadonlySet<string> = new Set([...'mgshlLJWVANCF$€£¥₹₽₩¢°Ω', '℃', '℉', 'Å']);
/** After a space they are units, too; beside a number they may be thousands and trillions. */
export const SPACED_SYMBOLS: ReadonlySet<string> = new Set(['K', 'T']);

/** What problems count. In the singular, too. */
const COUNTED = split(
  // Mathematics
  'integer number digit student solution value term side edge face corner angle point line plane segment ray ' +
    'triangle rectangle quadrilateral polygon pentagon hexagon octagon circle sphere diagonal chord tangent intersection ' +
    'asymptote coordinate pair triple triplet quadruple tuple subset set element member sequence series function polynomial equation ' +
    'coefficient variable outcome possibility permutation combination arrangement way method path route choice option case ' +
    'divisor vector region section part piece vertex vertices matrix matrices axis axes block tile ' +
    'dot letter word code string character symbol palindrome step move turn stage round trial experiment row column cell entry ' +
    'group class category colour color shape figure graph tree node loop lap trip revolution handshake factorization ' +
    'rearrangement coloring colouring pattern configuration decomposition partition isomer map homomorphism subgroup ' +
    'inequality expression fraction statement question answer problem page ' +
    // People
    'person man woman boy girl child adult kid friend guest visitor customer client worker employee teacher boss player ' +
    'team member candidate voter passenger driver rider runner swimmer dancer singer musician actor artist teenager baby ' +
    'farmer soldier officer monk nun scout senator politician judge lawyer doctor nurse engineer scientist mathematician juror ' +
    'contestant competitor participant opponent winner knight knave pirate prisoner villager citizen resident inhabitant tenant ' +
    'freshman sophomore junior senior graduate pupil classmate sibling brother sister cousin son daughter parent ' +
    'captain president committee subcommittee club family couple household crew battalion ' +
    // Animals and plants
    'animal dog cat cow horse pig sheep goat hen chicken duck goose turkey rooster bird fish rabbit frog toad turtle snake mouse rat ' +
    'ant bee fly beetle spider butterfly insect bug lion tiger bear wolf fox monkey elephant zebra giraffe panda camel puppy kitten ' +
    'pup lamb calf pony penguin whale shark dolphin octopus crab snail worm flower rose tulip lily daisy plant seed leaf ' +
    'bacterium bacteria cell amoeba ' +
    // Food
    'apple orange banana pear peach plum cherry grape lemon lime melon watermelon mango pineapple strawberry blueberry raspberry berry ' +
    'apricot coconut fig date nut peanut walnut almond potato tomato carrot onion pepper cucumber pumpkin vegetable fruit ' +
    'egg pie cake cupcake cookie brownie biscuit muffin donut doughnut pizza sandwich burger hamburger hotdog taco burrito slice ' +
    'loaf bagel roll bun pancake waffle candy chocolate sweet lollipop gumball jellybean snack meal lunch dinner breakfast ' +
    'drink soda bottle can glass jug pitcher mug bowl serving scoop recipe calorie topping ' +
    // Things
    'book notebook magazine newspaper pen pencil crayon marker eraser ruler paper sheet card stamp envelope letter postcard poster ' +
    'sticker photo photograph picture painting coin bill ticket token chip ball baseball basketball football marble bead button ' +
    'toy doll game puzzle block brick stick stone rock pebble shell box bag basket bucket barrel jar carton crate container package ' +
    'packet parcel pack bundle stack pile tray shelf drawer cabinet table chair desk bench bed lamp bulb candle ' +
    'clock watch phone computer laptop camera television tv radio machine robot printer tool hammer nail screw bolt ' +
    'car truck bus bicycle bike motorcycle van train plane airplane boat ship canoe tricycle wagon cart vehicle wheel tire ' +
    'house home apartment room floor building store shop school classroom office factory farm field garden lawn park pool tower ' +
    'city town village country state island planet star galaxy road street bridge station stop exit door window wall ' +
    'fence post pole rope string ribbon wire pipe rod tile panel board plank tree log bush ' +
    'shirt skirt dress coat jacket sweater sock shoe boot hat cap glove mitten scarf tie belt outfit suit necklace bracelet ring ' +
    'gem diamond pearl ruby jewel medal trophy prize gift present balloon flag kite drum guitar violin piano ' +
    'song movie film show episode chapter paragraph sentence verse poem message email call vote seat ticket point goal basket run ' +
    'homerun touchdown match tournament race inning pin dart arrow target spinner die dice deck suit ' +
    'student lesson course exam test quiz assignment project task job shift hour appointment meeting ' +
    'event accident error mistake defect particle atom molecule proton neutron electron photon ion drop bubble ' +
    'page sample item object thing unit copy type kind sort species variety size flavor flavour level layer floor rung stair ' +
    'space spot slot place position parking key lock switch light lightbulb battery plate cup fork knife spoon dish ' +
    'towel blanket pillow brush comb tank tub pot pan hole ditch well barrel',
);
const IRREGULAR_COUNTED = split(
  'people men women children teeth feet mice geese oxen deer moose salmon trout fish leaves loaves knives wolves calves shelves ' +
    'wives lives heads teenagers tickets times ways zeros zeroes vertices dice data sheep axes radii foci indices cacti babies ' +
    'students freshmen laps primes composites palindromes multiples factors divisors powers roots extrema maxima minima ' +
    'squares cubes octahedra tetrahedra polyhedra tangents sequences triples quadruples quintuples handshakes pints lines ' +
    'shares stocks bonds calories watts dogs beans crackers fries noodles pants jeans shorts scissors glasses binoculars',
);
/** A word after a number that computes in the singular, or means a factor: `26 square`, `26 score`. */
const NOT_COUNTED = split('score scores quarter quarters half halves gross grosses dozen dozens ply fold');

/** Nouns in the singular and plural, in lower case. */
export const COUNTED_NOUNS: ReadonlySet<string> = new Set(
  [...COUNTED.flatMap(plurals), ...IRREGULAR_COUNTED].filter((word) => !NOT_COUNTED.includes(word)),
);

/** What may stand before a counted noun. */
export const COUNTED_QUALITIES = wordSet(
  'positive negative real complex rational irrational integer integral whole natural prime composite even odd different distinct ' +
    'possible unique ordered unordered distinguishable lattice perfect proper common total vertical horizontal slant ' +
    'equilateral isosceles scalene right obtuse acute regular congruent noncongruent similar unit small large big little new ' +
    'red blue green yellow white black orange purple pink brown gray grey gold silver golden ' +
    'valid correct such identical equivalent nonzero nontrivial trivial interior exterior boundary diagonal ' +
    'three-digit two-digit four-digit five-digit adult child student cent dollar ice cream consecutive working full empty ' +
    'male female binary decimal simple closed open free fair square rectangular circular triangular ' +
    'infinite finite monic quadratic linear cubic integer-valued favorable favourable successful',
);

/** Things a value can be, which introduce it: `Area: 26`, `the value of x is 26`. */
export const MEASURES_NAMED = wordSet(
  'answer result solution total value amount number count quantity area volume length width height perimeter circumference ' +
    'distance speed velocity time duration age weight mass cost price fee salary wage pay profit revenue income tax ' +
    'temperature probability chance radius diameter depth thickness size capacity density pressure force energy ' +
    'work charge current voltage resistance acceleration momentum frequency wavelength rate ' +
    'score savings balance payment earnings expense expenses bill change population magnitude altitude ' +
    'slope intercept hypotenuse side leg angle measure money hours minutes days points point vertex vertices center centre coordinates interval set function day page year room question',
);
/** Results of an operation, which introduce a value only with `is` or a colon: `the sum of 26` is none. */
export const OPERATIONS_NAMED = wordSet(
  'sum difference product quotient remainder ratio average mean mode range gcd lcm gcf hcf determinant dimension order rank coefficient ' +
    'exponent power base degree median percentage constant term digit divisor factor multiple root zero limit integral derivative discriminant ' +
    'variance deviation maximum minimum max min integer prime fraction denominator numerator expression ' +
    'period amplitude modulus residue index trace eigenvalue inverse logarithm',
);
/** What may stand before such a noun. */
export const MEASURE_QUALITIES = wordSet(
  'final total correct required desired exact numerical numeric resulting combined simplified overall entire whole ' +
    'minimum maximum minimal maximal min max least greatest smallest largest lowest highest possible common surface lateral ' +
    'expected shaded positive unique requested sought ultimate complete average mean units ones tens hundreds leading constant ' +
    'single boxed',
);

/** Words that go on with the value itself: `about 26`. */
export const APPROXIMATE: ReadonlySet<string> = new Set(
  split('about around approximately approx roughly circa ca exactly precisely only just positive'),
);

/** Names of units in plain letters, which could also be a product of variables: `5 cm`. */
const SHORT_NAMES = split(
  'mm cm dm km nm ft in yd mi kg mg gm lb lbs oz ton sec min hr hrs day days yr yrs ml gal qt cup cc rs sq cu deg rad hz khz mhz kj kw ' +
    'kn pa kpa mpa kv ma mw mph kph kmh per of the man men boy way ways pie egg cow car bag box row bit mol toy set sets usd eur gbp inr cny jpy rmb chf hkd sgd nzd krw',
);

/** Words that are read as such without \text, in lower case: in four letters or more, no product of variables. */
export const PLAIN_NAMES: ReadonlySet<string> = new Set([
  ...SHORT_NAMES,
  ...[...UNIT_NAMES, ...COUNTED_NOUNS].filter((word) => word.length > 3),
  ...split('square squared cubic cubed each'),
]);
