/** Words and commands the tokenizer knows. */

/** Commands that mean the same as another command. */
export const SYNONYMS: ReadonlyMap<string, string> = new Map(
  Object.entries({
    dfrac: 'frac',
    tfrac: 'frac',
    cfrac: 'frac',
    dbinom: 'binom',
    tbinom: 'binom',
    leq: 'le',
    leqslant: 'le',
    leqq: 'le',
    lt: '<',
    geq: 'ge',
    geqslant: 'ge',
    geqq: 'ge',
    gt: '>',
    neq: 'ne',
    times: '*',
    cdot: '*',
    ast: '*',
    div: '/',
    over: '/',
    lbrace: '{set',
    rbrace: '}set',
    '{': '{set',
    '}': '}set',
    lvert: '|',
    rvert: '|',
    vert: '|',
    mid: '|',
    lbrack: '[',
    rbrack: ']',
    lgroup: '(',
    rgroup: ')',
    '%': '%',
    sim: 'approx',
    simeq: 'approx',
    thickapprox: 'approx',
    doteq: 'approx',
    equiv: '≡',
    varnothing: 'emptyset',
    circ: 'degree',
    degrees: 'degree',
    varepsilon: 'epsilon',
    varphi: 'phi',
    vartheta: 'theta',
    colon: ':',
    atop: 'choose',
    backslash: 'setminus',
    arcsinh: 'arsinh',
    arccosh: 'arcosh',
    arctanh: 'artanh',
    land: 'and',
    wedge: 'and',
    lor: 'or',
    vee: 'or',
    mod: 'mod',
    pod: 'pmod',
    bmod: 'mod',
    top: 'top',
    intercal: 'top',
    longmapsto: 'mapsto',
    hcf: 'gcd',
    gcf: 'gcd',
    tg: 'tan',
    ctg: 'cot',
    arctg: 'arctan',
    rightarrow: 'to',
    Rightarrow: 'to',
    longrightarrow: 'to',
    implies: 'to',
    '|': '|',
  }),
);

/** Commands that only affect layout. */
export const DRAWING: ReadonlySet<string> = new Set(
  (
    'left right middle big Big bigg Bigg bigl bigr Bigl Bigr biggl biggr Biggl Biggr bigm Bigm biggm Biggm mleft mright ' +
    'displaystyle textstyle scriptstyle scriptscriptstyle limits nolimits boldmath hline hfill nonumber notag mathord mathop mathbin mathrel ' +
    'mathopen mathclose mathinner mathpunct ensuremath smash small large Large LARGE huge Huge footnotesize scriptsize tiny ' +
    'normalsize strut mathstrut checkmark pounds euro cents yen qed blacksquare centering allowbreak relax protect'
  ).split(' '),
);

/** Commands that set the rest of a group in another font. */
export const FONTS: ReadonlySet<string> = new Set(
  'rm bf it sf tt sc sl em bfseries itshape rmfamily sffamily ttfamily upshape mdseries normalfont'.split(
    ' ',
  ),
);

/** Commands whose first argument is a colour. */
export const COLOURS: ReadonlySet<string> = new Set(
  'color textcolor mathcolor colorbox fcolorbox pagecolor'.split(' '),
);

/** Commands whose argument is not shown. */
export const PHANTOMS: ReadonlySet<string> = new Set(
  'phantom hphantom vphantom label tag ref rule'.split(' '),
);

/** Commands that are a space, narrower than \quad. */
export const SPACING: ReadonlySet<string> = new Set(
  'thinspace enspace medspace thickspace space nobreakspace nobreak hspace hskip kern mkern mskip enskip vspace'.split(
    ' ',
  ),
);

/** Commands whose argument is words. */
export const TEXT: ReadonlySet<string> = new Set(
  (
    'text textbf textit textrm textnormal texttt textsf textup textsc textsl textmd textsuperscript textsubscript mbox hbox ' +
    'mathrm mathbf mathit mathsf mathtt mathnormal operatorname emph bold boldsymbol bm pmb'
  ).split(' '),
);

/** Any of the text commands, as part of a pattern. */
export const TEXT_COMMAND = String.raw`\\(?:${[...TEXT].join('|')})(?![a-zA-Z])`;

/** Commands that decorate their argument. */
export const ACCENTS: ReadonlySet<string> = new Set(
  'vec hat bar overline tilde widehat widetilde overrightarrow dot ddot mathcal mathfrak mathscr underline overbrace underbrace'.split(
    ' ',
  ),
);

/** Commands of siunitx whose first argument is a number. */
export const MEASURES: ReadonlySet<string> = new Set(['ang', 'num', 'SI', 'qty']);

/** Functions of one argument that can be evaluated. */
export const FUNCTIONS: ReadonlySet<string> = new Set(
  (
    'sin cos tan cot sec csc arcsin arccos arctan arccot arcsec arccsc sinh cosh tanh coth sech csch arsinh arcosh ' +
    'artanh ln log lg exp'
  ).split(' '),
);

/** Functions of several arguments. */
export const VARIADIC: ReadonlySet<string> = new Set(['gcd', 'lcm', 'max', 'min']);

/** Names that mean a command when written without a backslash. */
export const WORD_COMMANDS: ReadonlyMap<string, string> = new Map([
  ...['sqrt', 'pi', 'gcd', 'lcm', 'max', 'min', 'frac', 'binom'].map((name): [string, string] => [
    name,
    name,
  ]),
  ...[...FUNCTIONS].map((name): [string, string] => [name, name]),
  ['GCD', 'gcd'],
  ['HCF', 'gcd'],
  ['GCF', 'gcd'],
  ['LCM', 'lcm'],
  ['infinity', 'infty'],
  ['infty', 'infty'],
  ['inf', 'infty'],
  ['oo', 'infty'],
  ['asin', 'arcsin'],
  ['acos', 'arccos'],
  ['atan', 'arctan'],
  ['mod', 'mod'],
  ['modulo', 'mod'],
  ['and', 'and'],
  ['or', 'or'],
  ['percent', '%'],
  ['percentage', '%'],
  ['pct', '%'],
  ['degrees', 'degree'],
  ['degree', 'degree'],
]);

/** Codes of currencies: units, also before the number. */
export const CURRENCIES: ReadonlySet<string> = new Set(
  'USD EUR GBP INR CNY JPY RMB CHF HKD SGD NZD KRW CAD AUD BRL MXN Rs'.split(' '),
);

/** Single letters that may be a unit when a space separates them from a plain number. */
export const LETTER_UNITS: ReadonlySet<string> = new Set([
  'm',
  'g',
  's',
  'h',
  'L',
  'l',
  'J',
  'W',
  'V',
  'A',
  'N',
  'T',
  'K',
  'C',
  'F',
]);

export const GREEK: ReadonlySet<string> = new Set(
  (
    'alpha beta gamma delta epsilon zeta eta theta iota kappa lambda mu nu xi omicron rho sigma tau upsilon phi chi psi ' +
    'omega Gamma Delta Theta Lambda Xi Pi Sigma Upsilon Phi Psi Omega varrho varsigma varpi ell hbar nabla partial ' +
    'imath jmath Re Im aleph wp'
  ).split(' '),
);
