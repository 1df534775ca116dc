/** Presets, math_verify's option names, and answers in text without a box. */
import { verifyAnswer } from '../../packages/verify/src';
import { BadConfig, optionsFromConfig } from '../../src/grading/config';

const status = (gold: string, text: string, config?: object, preset?: 'math-verify' | 'trl'): string =>
  verifyAnswer(gold, text, optionsFromConfig(config, preset)).status;

describe('math_verify option names', () => {
  test('float_rounding', () => {
    expect(status('\\frac13', '\\boxed{0.33}')).toBe('incorrect');
    expect(status('\\frac13', '\\boxed{0.33}', { float_rounding: 2 })).toBe('correct');
    expect(status('(\\frac13, \\frac15)', '\\boxed{(0.33, 0.2)}', { precision: 2 })).toBe('correct');
  });

  test('strict: false matches variables by position', () => {
    expect(status('f(x)', '\\boxed{f(y)}')).toBe('incorrect');
    expect(status('f(x)', '\\boxed{f(y)}', { strict: false })).toBe('correct');
    expect(status('x^2 + y', '\\boxed{a^2 + b}', { strict: false })).toBe('correct');
    expect(status('x^2 + y', '\\boxed{a + b}', { strict: false })).toBe('incorrect');
  });

  test('allow_set_relation_comp', () => {
    const answer = '\\boxed{-2 \\le x \\le 7}';
    expect(status('[-2,7]', answer)).toBe('correct');
    expect(status('[-2,7]', answer, { allow_set_relation_comp: false })).toBe('incorrect');
    expect(status('[-2,7]', answer, {}, 'trl')).toBe('incorrect');
    expect(status('[-2,7]', answer, { allow_set_relation_comp: true }, 'trl')).toBe('correct');
  });

  test('match_types: what is looked for', () => {
    expect(status('1.5', 'it costs 1,5 €', { match_types: ['expr'] })).toBe('correct');
    expect(status('1.5', 'it costs 1,5 €', { match_types: ['latex'] })).toBe('unparseable');
    expect(status('b', 'The answer is B.', { match_types: ['string'] })).toBe('correct');
    expect(status('B', 'The answer is B.', { match_types: ['string'], lowercase: false })).toBe('correct');
    const strings = { match_types: [{ type: 'string', strings: ['yes', 'no'] }] };
    expect(status('no', 'Final answer is no', strings)).toBe('correct');
    expect(status('yes', 'Final answer is no', strings)).toBe('incorrect');
  });

  test('boxed_match_priority', () => {
    const text = 'the final answer is $9$, \\boxed{1}';
    expect(status('1', text)).toBe('correct');
    expect(status('9', text, { boxed_match_priority: 100 })).toBe('correct');
    expect(status('1', '\\boxed{1}', { match_types: ['latex'], boxed_match_priority: -1 })).toBe(
      'unparseable',
    );
  });

  test('try_extract_without_anchor, extraction_mode, fallback_mode, malformed_operators', () => {
    expect(status('5', 'we get $5$', { match_types: ['latex'], try_extract_without_anchor: false })).toBe(
      'unparseable',
    );
    expect(status('5', 'answer: $5$', { match_types: ['latex'], try_extract_without_anchor: false })).toBe(
      'correct',
    );
    expect(status('5', 'then $5$, which is shown by $\\foo$')).toBe('correct');
    expect(status('5', 'then $5$, which is shown by $\\foo$', { extraction_mode: 'first_match' })).toBe(
      'unparseable',
    );
    expect(status('\\foo', '\\boxed{\\foo}')).toBe('correct');
    expect(status('\\foo', '\\boxed{\\foo}', { fallback_mode: 'no_fallback' })).not.toBe('correct');
    expect(status('0.5', '\\boxed{\\frac 12}', { malformed_operators: false })).toBe('unparseable');
  });

  test.each([
    [{ rounding: 3 }, 'unknown option rounding'],
    [{ float_rounding: 'six' }, 'float_rounding must be a number'],
    [{ float_rounding: -1 }, 'float_rounding must be a whole number'],
    [{ strict: 1 }, 'strict must be a boolean'],
    [{ match_types: ['tex'] }, 'match_types knows latex, expr and string, not "tex"'],
    [{ extraction_mode: 'last' }, 'extraction_mode must be any_match or first_match'],
    [[], 'config must be an object'],
  ])('%j is refused', (config, message) => {
    expect(() => optionsFromConfig(config)).toThrow(BadConfig);
    expect(() => optionsFromConfig(config)).toThrow(message);
  });
});

describe('the preset trl', () => {
  test('takes LaTeX as LaTeX in the completion, not in the reference', () => {
    for (const [gold, answer] of [
      ['\\frac12', '\\frac12'],
      ['\\sqrt3', '\\sqrt3'],
      ['\\sqrt3', 'sqrt(3)'],
    ] as const) {
      const same = gold === answer;
      expect(status(`0 + ${gold}`, `\\boxed{${answer}}`, undefined, 'math-verify')).toBe('correct');
      expect(status(`0 + ${gold}`, `\\boxed{${answer}}`, undefined, 'trl')).toBe('unparseable');
      // Identical text is equal whatever it means.
      if (same) expect(status(gold, `\\boxed{${answer}}`, undefined, 'trl')).toBe('correct');
    }
    expect(status('\\frac12', '\\boxed{\\frac{1}{2}}', undefined, 'trl')).toBe('correct');
  });

  test('ignores plain numbers, and formulas that no phrase announces', () => {
    expect(status('5', 'so it is 5', undefined, 'trl')).toBe('unparseable');
    expect(status('5', 'so it is $5$', undefined, 'trl')).toBe('unparseable');
    expect(status('5', 'The answer is $5$', undefined, 'trl')).toBe('correct');
  });
});

describe('an answer without a box', () => {
  test.each([
    ['12', 'First 3, then the final answer is 12. I hope it is correct.'],
    ['12', '**Answer:** 12 because 5 + 7 = 12'],
    ['\\frac12', 'Answer: $\\frac{1}{2}$, by symmetry of $x$ and $y$'],
    ['1000', 'it is 1 000'],
    ['1000.99', 'you pay $1,000.99 then'],
    ['\\frac23', 'The answer is 2/3'],
    ['28\\%', 'so 28 percent'],
    ['1,2,3', 'The values are $1$, $2$ and $3$'],
    ['[0,1)', 'therefore \\( [0,1) \\)'],
    ['9', 'we get \\[\n 9 \n\\]'],
    ['x^2+1', 'x^2+1'],
  ])('%s in: %s', (gold, text) => expect(status(gold, text)).toBe('correct'));

  test('a reference in a sentence is found the same way', () => {
    expect(status('Adding up gives $x = 12$ in all.', '\\boxed{12}')).toBe('correct');
    // Or word for word, when it does not parse.
    const whole = 'all $n$ with $\\mho(n) = 0$, for any integer $k$';
    expect(status(whole, `\\boxed{${whole}}`)).toBe('correct');
    expect(status('so we have \\boxed{12} of them', '\\boxed{12}')).toBe('correct');
  });
});
