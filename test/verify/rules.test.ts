/** Pairs made by rule (scripts/fixtures/verify_pairs.py), by class, next to math_verify's verdicts on the same rows. */
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { verifyAnswer } from '../../src/verify';

interface Row {
  gold: string;
  pred: string;
  truth: boolean;
  category: string;
  mathVerify: boolean;
}

const judged = (name: string) =>
  readFileSync(join(__dirname, '..', 'fixtures', 'verify', name), 'utf8')
    .trim()
    .split('\n')
    .map((line) => JSON.parse(line) as Row)
    .map((row) => ({ ...row, correct: verifyAnswer(row.gold, row.pred).correct }));
const rows = ['rules-work.jsonl', 'rules-final.jsonl'].flatMap(judged);
const classes = [...new Set(rows.map((row) => row.category))];
const shown = ({ gold, pred }: Row) => ({ gold, pred: pred.slice(-160) });

test('the fixture has both sides of every class', () => {
  expect(classes.length).toBeGreaterThan(40);
  for (const name of classes) {
    const truths = rows.filter((row) => row.category === name).map((row) => row.truth);
    expect([name, truths.filter(Boolean).length]).toEqual([name, truths.length / 2]);
  }
});

test('no wrong answer is accepted', () => {
  expect(rows.filter((row) => row.correct && !row.truth).map(shown)).toEqual([]);
});

test.each(classes)('%s: at least nine in ten are right', (name) => {
  const own = rows.filter((row) => row.category === name);
  const misses = own.filter((row) => row.correct !== row.truth);
  if (misses.length > own.length / 10) expect(misses.map(shown)).toEqual([]);
});

test('98.5% are right, and more than math_verify gets', () => {
  const right = rows.filter((row) => row.correct === row.truth).length;
  const byMathVerify = rows.filter((row) => row.mathVerify === row.truth).length;
  expect(right / rows.length).toBeGreaterThanOrEqual(0.985);
  expect(right).toBeGreaterThan(byMathVerify);
});

test('ways to write an answer, collected by hand from the conventions: each side of the rule', () => {
  const spellings = judged('spellings.jsonl');
  expect(spellings.length).toBeGreaterThan(2_000);
  expect(spellings.filter((row) => row.correct !== row.truth).map(shown)).toEqual([]);
});
