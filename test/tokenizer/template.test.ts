/** Untrusted chat templates: their work is limited, and they cannot reach the process. */
import { withinTime } from '../../src/base/deadline';
import { makeRenderer } from '../../src/tokenizer/template';

const render = (source: string): string =>
  makeRenderer('model', source, { bos_token: '<s>' })([{ role: 'user', content: 'Hi' }], {
    enableThinking: true,
    addGenerationPrompt: true,
  });
const refused = (what: RegExp) =>
  expect.objectContaining({ code: 'BAD_INPUT', message: expect.stringMatching(what) as string }) as Error;

test('the names that templates rely on exist', () => {
  expect(render('{{ bos_token }}{% for m in messages %}{{ m.role }}:{{ m["content"] }}{% endfor %}')).toBe(
    '<s>user:Hi',
  );
  expect(
    render('{{ range(3) | join(",") }} {{ range(1, 7, 2) | join(",") }} {{ range(3, 0, -1) | join }}'),
  ).toBe('0,1,2 1,3,5 321');
  expect(render('{{ true and True }} {{ none is none }} {{ False or false }}')).toBe('true true false');
  expect(render('{{ strftime_now("%Y") }}')).toBe(String(new Date().getFullYear()));
  expect(() => render('{{ raise_exception("no system turn") }}')).toThrow(
    refused(/^The chat template of model failed: no system turn$/),
  );
});

test.each([
  ['a long range', '{% for i in range(1000000000) %}{% endfor %}'],
  ['a range by another name', '{% set r = range %}{{ r(0, 1, 0.0000000001) | length }}'],
  ['a range without an end', '{{ range(0, 1, 0) | length }}'],
  ['nested loops', '{% for i in range(9999) %}{% for j in range(9999) %}{% endfor %}{% endfor %}'],
  ['a list doubled', '{% set ns = namespace(x=[1]) %}{% for i in range(60) %}{% set ns.x = ns.x + ns.x %}{% endfor %}'],
  ['text doubled', '{% set ns = namespace(x="a") %}{% for i in range(60) %}{% set ns.x = ns.x ~ ns.x %}{% endfor %}'],
  ['dates in a long format', '{% set x = range(900) | join("%Y%B%d") %}{% for i in range(900) %}{{ strftime_now(x) }}{% endfor %}'],
  ['dates, many of them', '{% for i in range(15000) %}{{ strftime_now("") }}{% endfor %}'],
  ['a literal of 50,000 entries', `{{ {${Array.from({ length: 50_000 }, (_, i) => `'k${i}': ${i}`).join()}} | tojson }}`],
  ['macros that call each other', '{% macro f(x) %}{{ x(x) }}{{ x(x) }}{% endmacro %}{{ f(f) }}'],
])('%s ends with an error', (_, source) => {
  expect(() => render(source)).toThrow(refused(/^The chat template of model failed: /));
}); // prettier-ignore

/** A text of 2^17 letters, each replaced by as many: 17 GB, unless that is counted beforehand. */
const LETTERS =
  '{% set ns = namespace(x="a") %}{% for i in range(17) %}{% set ns.x = ns.x ~ ns.x %}{% endfor %}';
test.each([
  ['as a filter', '{{ ns.x | replace("a", ns.x) | length }}'],
  ['as a filter of a block', '{% filter replace("a", ns.x) %}{{ ns.x }}{% endfilter %}'],
  ['as a method', '{{ ns.x.replace("a", ns.x) | length }}'],
  ['as a member by name', '{{ ns.x["replace"]("a", ns.x) | length }}'],
  ['as a value', '{% set f = ns.x.replace %}{{ f("a", ns.x) | length }}'],
  ['of an item', '{{ [ns.x][0].replace("a", ns.x) | length }}'],
  ['of a result', '{{ (ns.x ~ "b").replace("a", ns.x) | length }}'],
  ['of a condition', '{{ (ns.x if true else 1).replace("a", ns.x) | length }}'],
  ['of each item', '{% for t in [ns.x] %}{{ t.replace("a", ns.x) | length }}{% endfor %}'],
  ['of a call', '{{ ns.x.strip().replace("a", ns.x) | length }}'],
  ['by a macro', '{% macro f(t) %}{{ t.replace("a", t) | length }}{% endmacro %}{{ f(ns.x) }}'],
  ['of a message', '{% set o = {"k": ns.x} %}{{ o.k.replace("a", ns.x) | length }}'],
  ['of no letters', '{{ ns.x.replace("", ns.x) | length }}'],
])('replacing %s is counted before it is done', (_, source) => {
  expect(() => render(LETTERS + source)).toThrow(refused(/it takes more than 100000 steps$/));
});

test.each([
  ['{{ messages.constructor.constructor("return process")() }}'],
  ['{{ "".constructor("x") }}'],
  ['{{ range.constructor("return 1")() }}'],
  ['{{ messages["__proto__"].x() }}'],
])('%s does not reach JavaScript', (source) => {
  expect(() => render(source)).toThrow(refused(/Cannot call something that is not a function|undefined/));
});

test.each(['{{ 1 + }}', '{% for %}', '{{ # }}', '{% endif %}', '{# open'])('%s cannot be parsed', (source) => {
  expect(() => makeRenderer('model', source, {})).toThrow(refused(/^The chat template of model cannot be parsed: /));
}); // prettier-ignore

test('a regular expression that backtracks forever is stopped', () => {
  const text = `${'a'.repeat(40)}b`;
  expect(withinTime(100, () => /^(a+)+$/.test(text))).toBeNull();
  expect(withinTime(1_000, () => 5)).toEqual({ value: 5 });
});
