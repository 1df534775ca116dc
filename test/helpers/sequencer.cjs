const { default: Sequencer } = require('@jest/test-sequencer');

/** Takes ten times as long as most slow files. */
const LONGEST = 'acoer-check.slow.test.ts';

/**
 * The longest file first, then the slow ones. Jest orders files it has not run before by size, and a
 * small file that takes minutes would begin last, with nothing left for the other cores to do beside it.
 */
module.exports = class extends Sequencer {
  /** @override @param {import('@jest/test-result').Test[]} tests */
  async sort(tests) {
    const turn = ({ path = '' }) => (path.endsWith(LONGEST) ? 0 : path.includes('.slow.test.') ? 1 : 2);
    return [...(await super.sort(tests))].sort((a, b) => turn(a) - turn(b));
  }
};
