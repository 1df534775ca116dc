/** The states in which a disk may be found after a power loss at some moment: the telling ones, and random ones. */
import { CONTENTS } from './disk.mjs';

const RANDOM_CONTENTS = ['all', 'lost', 'zeros', 'cut', 'pages'];

/** Earlier changes have had their turn at earlier moments. */
const NEWEST = 8;

/** Pending changes of names: none, all, each of the newest alone, last, and missing. */
function* nameSets(pending) {
  yield [new Set(), 'no names'];
  yield [new Set(pending), 'all names'];
  for (const [i, effects] of pending.entries()) {
    if (i < pending.length - NEWEST) continue;
    const what = effects.map(({ name, node }) => `${node === null ? '-' : '+'}${name}`).join(' ');
    yield [new Set([effects]), `only ${what}`];
    // What depends on the missing one cannot be there either.
    yield [new Set(pending.filter((_, j) => j < i)), `before ${what}`];
    yield [without(pending, effects), `all but ${what}`];
  }
}

function without(pending, missing) {
  const gone = new Set();
  const names = new Set();
  for (const effects of pending) {
    const keys = effects.map(({ folder, name }) => `${folder.id}/${name}`);
    if (effects !== missing && !keys.some((key) => names.has(key))) continue;
    gone.add(effects);
    keys.forEach((key) => names.add(key));
  }
  return new Set(pending.filter((effects) => !gone.has(effects)));
}

/**
 * @param {import('./disk.mjs').Disk} disk
 * @param {string} path of the folder that is looked at
 * @param {number} count of random states
 * @param {() => number} random
 * @returns {Generator<{tree: Map<string, {key: string, content: (() => Buffer) | null}>, what: string}>}
 */
export function* crashStates(disk, path, count, random) {
  const pending = disk.pendingIn(path);
  for (const [names, what] of nameSets(pending)) {
    for (const contents of ['all', 'lost', 'zeros']) {
      yield {
        tree: disk.crashed(path, names, CONTENTS[contents]),
        what: `${what}, unsynced data: ${contents}`,
      };
    }
  }
  for (let i = 0; i < count; i++) {
    const names = new Set(pending.filter(() => random() < 0.5));
    const contentOf = (file) => {
      const kind = RANDOM_CONTENTS[Math.floor(random() * RANDOM_CONTENTS.length)];
      return CONTENTS[kind](file, random);
    };
    yield { tree: disk.crashed(path, names, contentOf), what: `random ${i}` };
  }
}

/** Equal for states that hold the same. */
export const stateKey = (tree) =>
  [...tree]
    .map(([path, { key }]) => `${path}=${key}`)
    .sort()
    .join('\n');
