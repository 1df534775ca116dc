/** Jest reporter: what was skipped and for want of what, and what of the fast tier takes too long for it. */
const { relative } = require('node:path');

/**
 * @typedef {{ fullName: string, status: string, duration?: number | null }} TestResult
 * @typedef {{ testFilePath: string, perfStats: { runtime: number }, testResults: TestResult[] }} FileResult
 */

const FAST = /(?<!\.slow)\.test\.ts$/;
const LIMIT_MS = 5000;

/**
 * How many tests were skipped and in which files, by the need that `needs.ts` wrote into their titles.
 *
 * @param {FileResult[]} results
 * @param {boolean} filtered
 */
function skippedByNeed(results, filtered) {
  /** @type {Map<string | undefined, { files: Set<string>, count: number }>} */
  const byNeed = new Map();
  for (const { testFilePath, testResults } of results) {
    for (const { status, fullName } of testResults) {
      if (status !== 'pending') continue;
      const need = /\[needs ([^\]]*)\]/.exec(fullName)?.[1];
      // With a filter of names, Jest counts the others as skipped.
      if (need === undefined && filtered) continue;
      const { files, count } = byNeed.get(need) ?? { files: new Set(), count: 0 };
      byNeed.set(need, { files: files.add(testFilePath), count: count + 1 });
    }
  }
  return byNeed;
}

/** @param {FileResult[]} results */
function tooSlow(results) {
  const fast = results.filter(({ testFilePath }) => FAST.test(testFilePath));
  const files = fast.map(({ testFilePath, perfStats }) => ({
    path: testFilePath,
    title: '',
    ms: perfStats.runtime,
  }));
  const tests = fast.flatMap(({ testFilePath, testResults }) =>
    testResults.map(({ fullName, duration }) => ({
      path: testFilePath,
      title: `: ${fullName}`,
      ms: duration ?? 0,
    })),
  );
  return [...files, ...tests].filter(({ ms }) => ms > LIMIT_MS).sort((a, b) => b.ms - a.ms);
}

module.exports = class Summary {
  /** @param {{ rootDir: string, testNamePattern?: string }} config */
  constructor({ rootDir, testNamePattern }) {
    this.rootDir = rootDir;
    this.filtered = Boolean(testNamePattern);
  }

  /**
   * @param {unknown} _contexts
   * @param {{ testResults: FileResult[] }} results
   */
  onRunComplete(_contexts, { testResults }) {
    /** @param {string} path */
    const name = (path) => relative(this.rootDir, path);
    const lines = [];
    for (const [need, { files, count }] of skippedByNeed(testResults, this.filtered)) {
      const why = need === undefined ? 'without a reason' : `for want of ${need}`;
      lines.push(`skipped ${count} ${why}: ${[...files].map(name).join(', ')}`);
    }
    const slow = tooSlow(testResults);
    if (slow.length > 0) {
      lines.push('Over 5 s (on an idle machine these belong in a file *.slow.test.ts, see CONTRIBUTING.md):');
      lines.push(...slow.map(({ path, title, ms }) => `  ${(ms / 1000).toFixed(1)} s ${name(path)}${title}`));
    }
    if (lines.length > 0) process.stderr.write(`\n${lines.join('\n')}\n`);
  }
};
