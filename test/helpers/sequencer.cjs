const Sequencer = require('@jest/test-sequencer').default;

/**
 * Slow files first. Jest orders files it has not run before by size, and a small file that takes
 * minutes would begin last, with nothing left for the other cores to do beside it.
 */
module.exports = class extends Sequencer {
  sort(tests) {
    const isFast = ({ path }) => !path.includes('.slow.test.');
    return super.sort(tests).sort((a, b) => isFast(a) - isFast(b));
  }
};
