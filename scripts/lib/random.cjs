/** Random numbers for scripts; the same seed gives the same numbers. */
'use strict';

/**
 * xorshift32 in [0, 1).
 * @param {number} seed
 * @returns {() => number}
 */
function randomFrom(seed) {
  let state = (Math.imul(seed, 0x9e3779b1) ^ 0x85ebca6b) >>> 0 || 1;
  return () => {
    state ^= state << 13;
    state ^= state >>> 17;
    state ^= state << 5;
    return (state >>> 0) / 2 ** 32;
  };
}

/**
 * @template T
 * @param {() => number} random
 * @param {readonly T[]} list not empty
 */
const pick = (random, list) => /** @type {T} */ (list[Math.floor(random() * list.length)]);

module.exports = { pick, randomFrom };
