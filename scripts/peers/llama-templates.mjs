/**
 * Whether llama.cpp renders chats as acoer does, from the template in a GGUF file that acoer wrote:
 *
 *   node scripts/peers/llama-templates.mjs MODEL URL
 *
 * MODEL is a folder, and URL that of a `llama-server --jinja` with its GGUF file. The chats are those of the tests on
 * SmolLM2 that end before an answer: their texts from /apply-template, and the ids of these from /tokenize.
 * Exit code: 1 if a text or its ids differ.
 */
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import tokenizers from '../../dist/tokenizer/index.js';
import { scriptArguments } from '../lib/arguments.mjs';
import { root } from '../lib/study.mjs';

const { positionals } = scriptArguments(import.meta.url, { allowPositionals: true, options: {} });
const [folder, url] = positionals;
if (url === undefined) {
  console.error('usage: node scripts/peers/llama-templates.mjs MODEL URL');
  process.exit(2);
}

async function ask(path, body) {
  const response = await fetch(new URL(path, url), { method: 'POST', body: JSON.stringify(body) });
  if (!response.ok) throw new Error(`${path}: ${response.status} ${await response.text()}`);
  return response.json();
}

const tokenizer = await tokenizers.loadTokenizer(folder);
const chats = JSON.parse(readFileSync(join(root, 'test/fixtures/real/chats.json'), 'utf8')).filter(
  ({ addGenerationPrompt }) => addGenerationPrompt,
);
const different = { texts: [], ids: [] };
for (const { messages } of chats) {
  const ours = tokenizer.renderChat(messages, { enableThinking: true, addGenerationPrompt: true });
  const { prompt } = await ask('/apply-template', { messages });
  if (prompt !== ours) different.texts.push({ messages, ours, prompt });
  const { tokens } = await ask('/tokenize', { content: ours, add_special: false, parse_special: true });
  if (String(tokens) !== String([...tokenizer.encode(ours)])) different.ids.push(messages);
}
console.log(
  `${chats.length} chats: ${different.texts.length} other texts, ${different.ids.length} other ids`,
);
for (const list of Object.values(different))
  if (list.length > 0) console.log(JSON.stringify(list[0], null, 2));
if (different.texts.length + different.ids.length > 0) process.exitCode = 1;
