/** Figures as files: legible on a light and on a dark ground, and drawn alike by programs that know no such rules. */
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { DARK, LIGHT } from '../../src/drawing/palette';
import { standalone } from '../../src/drawing/svg';

const ROOT = join(__dirname, '..', '..');
const figure =
  '<svg fill="currentColor"><path stroke="var(--s1)"/><circle fill="var(--page)" stroke="var(--muted)"/></svg>';

test('the colours are the light ones, and each has its dark one where that is asked for', () => {
  const svg = standalone(figure);
  expect(svg).not.toContain('var(');
  const [, rules] = /<style>@media \(prefers-color-scheme:dark\)\{(.*)\}<\/style>/.exec(svg)!;
  const drawn = svg.replace(/<style>.*<\/style>/, '');
  const used = [...drawn.matchAll(/(fill|stroke)="(#[0-9a-f]{6})"/g)];
  expect(used).toHaveLength(5);
  for (const [, kind, light] of used) {
    const name = Object.keys(LIGHT).find((key) => LIGHT[key] === light)!;
    expect(rules).toContain(`[${kind}="${light}"]{${kind}:${DARK[name]}}`);
  }
});

test('no two colours of the light palette are the same, so that each has one dark one', () => {
  expect(new Set(Object.values(LIGHT)).size).toBe(Object.keys(LIGHT).length);
  expect(Object.keys(DARK)).toEqual(Object.keys(LIGHT));
});

test.each(['docs/images/first-run-thinking.svg', 'docs/images/first-run-accuracy.svg', 'docs/lab.svg'])(
  '%s has no colour without a dark one',
  (path) => {
    const svg = readFileSync(join(ROOT, path), 'utf8');
    const drawn = svg.replace(/<style>.*<\/style>/, '');
    for (const [, kind, colour] of drawn.matchAll(/(fill|stroke)="(#[0-9a-f]{6})"/g))
      expect(svg).toContain(`[${kind}="${colour}"]{${kind}:#`);
  },
);
