/** Tokenizers and chat templates for the fuzzer. */
'use strict';

const { tiny, together } = require('./fuzz-seeds.cjs');

/** The embedded tokenizer with a byte-level vocabulary in place of its own, as Qwen's. */
function byteTokenizer() {
  const { model: _, ...rest } = JSON.parse(String(tiny('tokenizer.json')));
  const bytes = Array.from({ length: 188 }, (_, n) => String.fromCharCode(n < 94 ? n + 33 : n < 106 ? n + 67 : n + 68));
  const merges = [['t', 'h'], ['th', 'e'], ['i', 'n'], ['1', '+']];
  const pieces = [...bytes, ...Array.from({ length: 68 }, (_, n) => String.fromCharCode(256 + n)), ...merges.map((pair) => pair.join(''))];
  const added = rest.added_tokens.map((/** @type {any} */ token, /** @type {number} */ n) => ({ ...token, id: pieces.length + n }));
  const vocab = Object.fromEntries(pieces.map((piece, id) => [piece, id]));
  const byteLevel = { type: 'ByteLevel', add_prefix_space: false, trim_offsets: false, use_regex: false };
  return {
    ...rest,
    added_tokens: added,
    normalizer: { type: 'NFC' },
    pre_tokenizer: { type: 'Sequence', pretokenizers: [{ type: 'Split', pattern: { Regex: "'s|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|\\p{N}| ?[^\\s\\p{L}\\p{N}]+|\\s+" }, behavior: 'Isolated', invert: false }, byteLevel] },
    post_processor: byteLevel,
    decoder: byteLevel,
    model: { type: 'BPE', dropout: null, unk_token: null, continuing_subword_prefix: '', end_of_word_suffix: '', fuse_unk: false, byte_fallback: false, vocab, merges },
  };
} // prettier-ignore

/**
 * Everything a run does with a tokenizer.
 * @param {(name: string) => any} dist loads a file of the compiled package
 * @param {string} folder
 */
async function use(dist, folder) {
  const { loadTokenizer, renderPrompt, measureThinking } = dist('tokenizer/index.js');
  const tokenizer = await loadTokenizer(folder);
  const problem = { id: '0', question: 'What is <think> 1+2? é🦄', gold: '3', level: null };
  const { ids } = renderPrompt(tokenizer, problem, 0);
  for (const skipSpecial of [true, false]) tokenizer.decode(ids, { skipSpecial });
  measureThinking(ids, tokenizer, false);
  if (!(Number.isSafeInteger(tokenizer.vocabSize) && tokenizer.vocabSize >= 0)) throw new Error('vocabSize');
  for (const id of [...tokenizer.eosIds, tokenizer.padId, ...ids]) {
    if (!(Number.isSafeInteger(id) && id >= 0)) throw new Error(`not a token id: ${id}`);
  }
}

const TEMPLATES = {
  plain: JSON.parse(String(tiny('tokenizer_config.json'))).chat_template,
  loops: "{%- macro show(m) -%}{{ m.role | upper }}: {{ m['content'] | trim }}{%- endmacro -%}{% set ns = namespace(n=0) %}{% for m in messages[::-1] %}{% set ns.n = ns.n + loop.index0 %}{% if loop.first and m.content is string %}{{ show(m) }}{% elif m.tool_calls is defined %}{{ m | tojson(indent=2) }}{% endif %}{% endfor %}{{ ns.n }}",
  tests: "{% for i in range(3) %}{{ loop.previtem if loop.index > 1 else i }}{{ [1, 2, i] | join('-') }}{{ messages[0].content.split('1')[-1].lstrip('<') }}{% endfor %}{{ raise_exception('no') if enable_thinking is false else '<think>' }}{{ {'a': 1}.items() | list | length }}{{ strftime_now('%Y') }}",
}; // prettier-ignore

const seeds = () => ({
  tiny: together(tiny('tokenizer.json'), tiny('tokenizer_config.json')),
  bytes: together(JSON.stringify(byteTokenizer()), tiny('tokenizer_config.json')),
});
const templates = () =>
  Object.fromEntries(Object.entries(TEMPLATES).map(([name, text]) => [name, Buffer.from(text)]));

module.exports = { seeds, templates, use };
