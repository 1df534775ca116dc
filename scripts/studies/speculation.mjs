/**
 * What lossless speculation would gain: how many tokens a pass of decoding would make if it proposed what followed the
 * same tokens before, in the completion's own text or in those of its group, and how many rows a pass would compute for
 * it. A proposal is accepted while it equals the token that was drawn, so nothing is decoded here.
 *
 *   node scripts/studies/speculation.mjs RUN [--tokens 3] [--draft 4] [--parts 4]
 *
 * Reads the completions that RUN kept, encodes their texts again, and prints means over each of `--parts` parts of its
 * steps. The completions of a group advance together, as they are decoded: a pass sees what all have made before it.
 * `--tokens`: how many must be the same; `--draft`: the most that is proposed. Needs `npm run build:ts`.
 */
import { readFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { join } from 'node:path';
import { scriptArguments } from '../lib/arguments.mjs';

const require = createRequire(import.meta.url);
const { loadTokenizer, resolveModel } = require('../../dist/index.js');
const { completionTables, readCompletions } = require('../../dist/run/index.js');

/** Where the tokens before a place have been followed by something, the last time. */
class Seen {
  places = new Map();

  constructor(length) {
    this.length = length;
  }

  /** Adds what text[from, to) follows. */
  add(text, from, to) {
    for (let at = Math.max(from, this.length); at < to; at++)
      this.places.set(this.key(text, at), { text, at });
  }

  find(text, at) {
    return this.places.get(this.key(text, at));
  }

  key(text, at) {
    return text.ids.slice(at - this.length, at).join(' ');
  }
}

/** Passes that a group of texts ({ids, begin}, of which [0, begin) is the prompt) takes, and the rows of all. */
function passesOf(texts, { tokens, draft, shares }) {
  const all = new Seen(tokens);
  const own = new Map(texts.map((text) => [text, new Seen(tokens)]));
  const made = new Map(texts.map((text) => [text, text.begin]));
  for (const text of texts) own.get(text).add(text, 0, text.begin);
  let [passes, rows] = [0, 0];
  for (let live = texts; live.length > 0; live = live.filter((text) => made.get(text) < text.ids.length)) {
    const before = new Map(made);
    for (const text of live) {
      const from = before.get(text);
      const found = own.get(text).find(text, from) ?? (shares ? all.find(text, from) : undefined);
      const known = found === undefined ? 0 : Math.min(draft, before.get(found.text) - found.at);
      let right = 0;
      while (right < known && found.text.ids[found.at + right] === text.ids[from + right]) right++;
      made.set(text, Math.min(text.ids.length, from + right + 1));
      passes++;
      rows += 1 + known;
    }
    for (const text of live) {
      own.get(text).add(text, before.get(text), made.get(text));
      all.add(text, before.get(text), made.get(text));
    }
  }
  return { passes, rows };
}

const { positionals, values } = scriptArguments(import.meta.url, {
  allowPositionals: true,
  options: {
    tokens: { type: 'string', default: '3' },
    draft: { type: 'string', default: '4' },
    parts: { type: 'string', default: '4' },
  },
});
const [run] = positionals;
if (run === undefined) {
  console.error('usage: node scripts/studies/speculation.mjs RUN [--tokens 3] [--draft 4] [--parts 4]');
  process.exit(2);
}
const [tokens, draft, parts] = [values.tokens, values.draft, values.parts].map(Number);
const { model } = JSON.parse(readFileSync(join(run, 'config.json'), 'utf8'));
const tokenizer = await loadTokenizer((await resolveModel(model)).directory);

/** Ids of a prompt and a completion of it. */
function textOf({ prompt, completion }) {
  const [before, after] = [prompt, completion].map((text) => [...tokenizer.encode(text)]);
  return { ids: [...before, ...after], begin: before.length };
}

function groupsOf(completions) {
  const groups = new Map();
  for (const one of completions) groups.set(one.promptIndex, [...(groups.get(one.promptIndex) ?? []), one]);
  return groups.values();
}

const tables = completionTables(run);
const rows = [];
for (let part = 0; part < parts; part++) {
  const sums = { tokens: 0, count: 0, own: [0, 0], group: [0, 0] };
  const from = Math.floor((part * tables.length) / parts);
  const to = Math.floor(((part + 1) * tables.length) / parts);
  for (const table of tables.slice(from, to)) {
    for (const completions of groupsOf(await readCompletions(table))) {
      const texts = completions.map(textOf).filter(({ ids, begin }) => ids.length > begin);
      for (const { ids, begin } of texts) sums.tokens += ids.length - begin;
      sums.count += texts.length;
      for (const [kind, shares] of [
        ['own', false],
        ['group', true],
      ]) {
        const { passes, rows } = passesOf(texts, { tokens, draft, shares });
        sums[kind][0] += passes;
        sums[kind][1] += rows;
      }
    }
  }
  rows.push({
    tables: `${from + 1} to ${to}`,
    'mean tokens': (sums.tokens / sums.count).toFixed(1),
    'tokens a pass, own text': (sums.tokens / sums.own[0]).toFixed(3),
    'its rows': (sums.own[1] / sums.own[0]).toFixed(2),
    'own text and group': (sums.tokens / sums.group[0]).toFixed(3),
    rows: (sums.group[1] / sums.group[0]).toFixed(2),
  });
}
console.table(rows);
