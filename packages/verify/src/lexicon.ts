/** Words and commands the tokenizer knows. */

export const wordSet = (words: string): ReadonlySet<string> => new Set(words.split(' '));

/** Names by what they mean, turned into a map from each name. */
const meanings = (names: Readonly<Record<string, string>>): [string, string][] =>
  Object.entries(names).flatMap(([meaning, words]) =>
    words.split(' ').map((word): [string, string] => [word, meaning]),
  );

/** Commands that mean the same as another command. */
export const SYNONYMS: ReadonlyMap<string, string> = new Map(
  meanings({
    frac: 'dfrac tfrac cfrac',
    binom: 'dbinom tbinom',
    le: 'leq leqslant leqq',
    ge: 'geq geqslant geqq',
    '<': 'lt',
    '>': 'gt',
    ne: 'neq',
    '*': 'times cdot ast',
    '/': 'div over',
    ':': 'colon',
    '{set': 'lbrace {',
    '}set': 'rbrace }',
    '[': 'lbrack',
    ']': 'rbrack',
    '(': 'lgroup',
    ')': 'rgroup',
    '|': 'lvert rvert vert mid',
    dots: 'ldots cdots',
    approx: 'sim simeq thickapprox doteq',
    '≡': 'equiv',
    emptyset: 'varnothing',
    setminus: 'backslash',
    degree: 'circ degrees',
    epsilon: 'varepsilon',
    phi: 'varphi',
    theta: 'vartheta',
    choose: 'atop',
    arsinh: 'arcsinh',
    arcosh: 'arccosh',
    artanh: 'arctanh',
    tan: 'tg',
    cot: 'ctg',
    arctan: 'arctg',
    gcd: 'hcf gcf',
    and: 'land wedge &',
    or: 'lor vee',
    mod: 'bmod',
    pmod: 'pod',
    top: 'intercal',
    to: 'rightarrow Rightarrow longrightarrow implies',
    mapsto: 'longmapsto',
  }),
);

/** Commands without a meaning of their own: delimiters of formulas and boxes. */
export const IGNORED = wordSet('$ ( ) [ ] boxed fbox');

/** Commands that only affect layout. */
export const DRAWING = wordSet(
  'left right middle big Big bigg Bigg bigl bigr Bigl Bigr biggl biggr Biggl Biggr bigm Bigm biggm Biggm mleft mright ' +
    'displaystyle textstyle scriptstyle scriptscriptstyle limits nolimits boldmath hline hfill nonumber notag mathord mathop mathbin mathrel ' +
    'mathopen mathclose mathinner mathpunct ensuremath smash small large Large LARGE huge Huge footnotesize scriptsize tiny ' +
    'normalsize strut mathstrut checkmark pounds euro cents yen qed blacksquare centering allowbreak relax protect',
);

/** Commands that set the rest of a group in another font. */
export const FONTS = wordSet(
  'rm bf it sf tt sc sl em bfseries itshape rmfamily sffamily ttfamily upshape mdseries normalfont',
);

/** Commands whose first argument is a colour. */
export const COLOURS = wordSet('color textcolor mathcolor colorbox fcolorbox pagecolor');

/** Commands whose argument is not shown. */
export const PHANTOMS = wordSet('phantom hphantom vphantom label tag ref rule');

/** Commands that are a space, narrower than \quad. */
export const SPACING = wordSet(
  'thinspace enspace medspace thickspace space nobreakspace nobreak hspace hskip kern mkern mskip enskip vspace',
);

/** Commands whose argument is words. */
export const TEXT = wordSet(
  'text textbf textit textrm textnormal texttt textsf textup textsc textsl textmd textsuperscript textsubscript mbox hbox ' +
    'mathrm mathbf mathit mathsf mathtt mathnormal operatorname emph bold boldsymbol bm pmb',
);

/** Any of the text commands, as part of a pattern. */
export const TEXT_COMMAND = String.raw`\\(?:${[...TEXT].join('|')})(?![a-zA-Z])`;

/** Commands that decorate their argument. */
export const ACCENTS = wordSet(
  'vec hat bar overline tilde widehat widetilde overrightarrow dot ddot mathcal mathfrak mathscr underline overbrace underbrace',
);

/** Commands of siunitx whose first argument is a number. */
export const MEASURES = wordSet('ang num SI qty');

/** Functions of one argument that can be evaluated. */
export const FUNCTIONS = wordSet(
  'sin cos tan cot sec csc arcsin arccos arctan arccot arcsec arccsc sinh cosh tanh coth sech csch arsinh arcosh ' +
    'artanh ln log lg exp',
);

/** Functions of several arguments. */
export const VARIADIC = wordSet('gcd lcm max min');

/** Names that mean a command when written without a backslash. */
export const WORD_COMMANDS: ReadonlyMap<string, string> = new Map([
  ...['sqrt', 'pi', 'frac', 'binom', ...VARIADIC, ...FUNCTIONS].map((name): [string, string] => [name, name]),
  ...meanings({
    gcd: 'GCD HCF GCF',
    lcm: 'LCM',
    infty: 'infinity infty inf oo',
    arcsin: 'asin',
    arccos: 'acos',
    arctan: 'atan',
    mod: 'mod modulo',
    and: 'and',
    or: 'or',
    '%': 'percent percentage pct',
    degree: 'degrees degree',
  }),
]);

/** Codes of currencies: units, also before the number. */
export const CURRENCIES = wordSet('USD EUR GBP INR CNY JPY RMB CHF HKD SGD NZD KRW CAD AUD BRL MXN Rs');

/** Single letters that may be a unit when a space separates them from a plain number. */
export const LETTER_UNITS: ReadonlySet<string> = new Set('mgshLlJWVANTKCF');

export const GREEK = wordSet(
  'alpha beta gamma delta epsilon zeta eta theta iota kappa lambda mu nu xi omicron rho sigma tau upsilon phi chi psi ' +
    'omega Gamma Delta Theta Lambda Xi Pi Sigma Upsilon Phi Psi Omega varrho varsigma varpi ell hbar nabla partial ' +
    'imath jmath Re Im aleph wp',
);
