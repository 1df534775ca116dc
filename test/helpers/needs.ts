/** Tests that need something of the machine: a tool, a right, a build that takes too long to make here. */

interface Runs {
  test: (title: string, run: jest.ProvidesCallback, timeoutMs?: number) => void;
  describe: (title: string, tests: () => void) => void;
}

/**
 * `test` and `describe` where the machine has what they need; elsewhere the tests are skipped, and the summary at the
 * end names `what` is missing ("needs ...").
 */
export function needs(what: string, has: boolean): Runs {
  if (has) return { test, describe };
  const because = (title: string): string => `${title} [needs ${what}]`;
  return {
    test: (title, run, timeoutMs) => test.skip(because(title), run, timeoutMs),
    describe: (title, tests) => describe.skip(because(title), tests),
  };
}
