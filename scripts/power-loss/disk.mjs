/**
 * A disk that may lose power after any call. The model is the weakest that Linux file systems with a journal
 * leave to a program which relies on POSIX alone:
 *
 * - Content of a file is on disk once the file was synced after it was written. Of later writes nothing, all,
 *   or the calls up to some byte may be there; and the new length may be there with zeros in place of data, as
 *   a whole or for single pages of 4 KiB (delayed allocation).
 * - A change of a folder's names is on disk once that folder was synced after it. Of later changes any set may
 *   be there, in any order, also of one folder, whether or not the content of the files is. But changes of the
 *   same name keep their order, and a rename happens as a whole, also from one folder to another.
 * - A synced file or folder is lost all the same if its name, or that of a folder above it, is not on disk.
 */

const PAGE_BYTES = 4096;
let ids = 0;

class File {
  id = ids++;
  /** Calls that changed the content since it was created: `{at, data}`, or `{size}` for a truncation. */
  changes = [];
  /** How many of them are on disk. */
  synced = 0;
}

class Folder {
  id = ids++;
  /** Names as the program sees them. @type {Map<string, File | Folder>} */
  live = new Map();
  /** Names on disk. @type {Map<string, File | Folder>} */
  stored = new Map();
}

function place(disk, path) {
  const parts = path === '' ? [] : path.split('/');
  const name = parts.pop() ?? '';
  let folder = disk.root;
  for (const part of parts) folder = folder?.live.get(part);
  return { folder, name };
}

function nodeAt(disk, path) {
  if (path === '') return disk.root;
  const { folder, name } = place(disk, path);
  return folder?.live.get(name);
}

export class Disk {
  root = new Folder();
  /** Changes of names that are not on disk: each a list of `{folder, name, node}`, node null: removed. */
  pending = [];

  /** Everything in `calls` so far, in order. @param {import('./log.mjs').Call} call */
  apply({ op, number, path, other, data }) {
    if (op === 'mark') return;
    if (op === 'sync') return this.sync(nodeAt(this, path));
    if (op === 'write') return void nodeAt(this, path).changes.push({ at: number, data });
    if (op === 'truncate') return void nodeAt(this, path).changes.push({ size: number });
    const at = place(this, path);
    if (op === 'create') return this.change([{ ...at, node: new File() }]);
    if (op === 'mkdir') return this.change([{ ...at, node: new Folder() }]);
    if (op === 'remove') return this.change([{ ...at, node: null }]);
    const to = { ...place(this, other), node: at.folder.live.get(at.name) };
    if (op === 'link') return this.change([to]);
    if (op === 'rename') return this.change([{ ...at, node: null }, to]);
    throw new Error(`unknown call ${op}`);
  }

  /** A file that was there before the recording, on disk. */
  addStored(path, data) {
    const { folder, name } = place(this, path);
    const node = data === null ? new Folder() : new File();
    if (data !== null) [node.changes, node.synced] = [[{ at: 0, data }], 1];
    folder.live.set(name, node);
    folder.stored.set(name, node);
  }

  change(effects) {
    for (const { folder, name, node } of effects) set(folder.live, name, node);
    this.pending.push(effects);
  }

  sync(node) {
    if (node instanceof File) {
      node.synced = node.changes.length;
      return;
    }
    const wanted = this.pending.filter((effects) => effects.some(({ folder }) => folder === node));
    const durable = this.withEarlier(new Set(wanted));
    for (const effects of this.pending) {
      if (durable.has(effects))
        for (const { folder, name, node: value } of effects) set(folder.stored, name, value);
    }
    this.pending = this.pending.filter((effects) => !durable.has(effects));
  }

  /** `chosen` changes with all earlier ones of the same names. */
  withEarlier(chosen) {
    const closed = new Set();
    const names = new Set();
    for (const effects of this.pending.toReversed()) {
      const keys = effects.map(({ folder, name }) => `${folder.id}/${name}`);
      if (!chosen.has(effects) && !keys.some((key) => names.has(key))) continue;
      closed.add(effects);
      keys.forEach((key) => names.add(key));
    }
    return closed;
  }

  /**
   * What is found in the folder `path` after a power loss if these pending changes of names are on disk.
   * @param {string} path
   * @param {Set<object[]>} chosen
   * @param {(file: File) => {key: string, content: () => Buffer}} contentOf
   * @returns {Map<string, {key: string, content: (() => Buffer) | null}>} by path; folders have no content
   */
  crashed(path, chosen, contentOf) {
    const applied = this.withEarlier(chosen);
    const names = new Map();
    const namesOf = (folder) => names.get(folder) ?? names.set(folder, new Map(folder.stored)).get(folder);
    for (const effects of this.pending) {
      if (applied.has(effects))
        for (const { folder, name, node } of effects) set(namesOf(folder), name, node);
    }
    const folder = path.split('/').reduce((from, part) => from && namesOf(from).get(part), this.root);
    return folder === undefined ? new Map() : listed(folder, namesOf, contentOf);
  }

  /** The pending changes of names in the folder `path`, below it, and of its own name. */
  pendingIn(path) {
    const inside = new Set();
    const walk = (folder) => {
      inside.add(folder);
      for (const node of [...folder.live.values(), ...folder.stored.values()]) {
        if (node instanceof Folder && !inside.has(node)) walk(node);
      }
    };
    const { folder: parent, name } = place(this, path);
    const folder = parent?.live.get(name);
    if (folder !== undefined) walk(folder);
    // A folder that was renamed and emptied is in neither list, but its own changes do not matter then.
    return this.pending.filter((effects) =>
      effects.some((effect) => inside.has(effect.folder) || effect.node === folder || effect.node === parent),
    );
  }

  /** What the program sees in the folder `path`. */
  whole(path = '') {
    const folder = nodeAt(this, path);
    return folder === undefined ? new Map() : listed(folder, (from) => from.live, CONTENTS.all);
  }
}

function set(names, name, node) {
  if (node === null) names.delete(name);
  else names.set(name, node);
}

function listed(root, namesOf, contentOf) {
  const found = new Map();
  const walk = (folder, prefix) => {
    for (const [name, node] of namesOf(folder)) {
      const path = prefix + name;
      if (node instanceof File) {
        found.set(path, contentOf(node));
      } else {
        found.set(path, { key: 'folder', content: null });
        walk(node, `${path}/`);
      }
    }
  };
  walk(root, '');
  return found;
}

/** The content after `changes`, those from `zeroFrom` on as zeros. */
function contentAfter(changes, zeroFrom = Infinity) {
  let content = Buffer.alloc(0);
  changes.forEach((change, index) => {
    const size = change.size ?? Math.max(content.length, change.at + change.data.length);
    if (size !== content.length)
      content = Buffer.concat([content, Buffer.alloc(Math.max(0, size - content.length))], size);
    if (change.size !== undefined) return;
    if (index < zeroFrom) change.data.copy(content, change.at);
    else content.fill(0, change.at, change.at + change.data.length);
  });
  return content;
}

/** A file as it is now: what comes later does not change what is returned here. */
const now = ({ id, synced, changes }) => ({ id, synced, changes: changes.slice() });

const kept = ({ id, changes }, count) => ({
  key: `${id}@${count}`,
  content: () => contentAfter(changes.slice(0, count)),
});

/** What is left of a synced file is what is in it; `left` gives what may be left of another. */
const unlessSynced = (left) => (file, random) =>
  file.synced === file.changes.length ? kept(now(file), file.synced) : left(now(file), random);

/** What may be left of a file's content. The random ones take `random`, uniform in [0, 1). */
export const CONTENTS = {
  all: unlessSynced((file) => kept(file, file.changes.length)),
  lost: unlessSynced((file) => kept(file, file.synced)),
  zeros: unlessSynced(({ id, changes, synced }) => ({
    key: `${id}@${changes.length}z${synced}`,
    content: () => contentAfter(changes, synced),
  })),
  /** The calls up to some byte. */
  cut: unlessSynced(({ id, changes, synced }, random) => {
    const count = synced + Math.floor(random() * (changes.length - synced));
    const share = random();
    const last = changes[count];
    const part = last.data && {
      at: last.at,
      data: last.data.subarray(0, Math.floor(share * last.data.length)),
    };
    return {
      key: `${id}@${count}c${share}`,
      content: () => contentAfter([...changes.slice(0, count), part ?? last]),
    };
  }),
  /** The whole length, and each page as it is or as it was, zeros where there was none. */
  pages: unlessSynced(({ id, changes, synced }, random) => {
    const whole = contentAfter(changes);
    const before = contentAfter(changes.slice(0, synced));
    const seed = random();
    for (let from = 0; from < whole.length; from += PAGE_BYTES) {
      if (random() < 0.5) continue;
      const to = Math.min(from + PAGE_BYTES, whole.length);
      whole.fill(0, from, to);
      before.subarray(from, to).copy(whole, from);
    }
    return { key: `${id}@${changes.length}p${seed}`, content: () => whole };
  }),
};
