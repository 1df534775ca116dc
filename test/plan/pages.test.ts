/** Who enters the cache, by the rule of native/core/generate/kv_pages.cpp. */
import { PageAdmission } from '../../src/plan/kv';

const CACHE = { pagePositions: 64, pages: 20, fullPages: 10, slots: 8 };

test('until a sequence has ended, each counts with the most it may hold', () => {
  const admission = new PageAdmission(CACHE);
  expect(admission.admits([], 64)).toBe(true);
  expect(admission.admits([64], 64)).toBe(true);
  expect(admission.admits([64, 64], 64)).toBe(false);
});

test('then with what those before have come to hold', () => {
  const admission = new PageAdmission(CACHE);
  admission.ended(2 * 64);
  // With n in slots 2 + n pages are expected of each: (n + 1)(n + 2) may be at most 20.
  const live = [64];
  while (admission.admits(live, 64)) live.push(64);
  expect(live).toHaveLength(4);
  // Those that hold more than that count with what they hold.
  expect(admission.admits([64, 64, 10 * 64], 64)).toBe(false);
});

test('slots are a limit of their own', () => {
  const admission = new PageAdmission({ ...CACHE, pages: 1000 });
  expect(admission.admits(Array<number>(7).fill(64), 64)).toBe(true);
  expect(admission.admits(Array<number>(8).fill(64), 64)).toBe(false);
});
