/** docs/serve.md's example for OpenAI's Python client, and what it gets from a real model. */
import { execFile } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { openModel } from '../../src/chat';
import { startServer } from '../../src/serve';
import { ROOT } from '../helpers/cli';
import { realModel } from '../helpers/real-model';

const PYTHON = join(ROOT, '.cache', 'real', 'venv', 'bin', 'python');
const KEY = 'a-key-of-the-test';
const [, example] = /^```python\n([^]*?)^```$/m.exec(readFileSync(join(ROOT, 'docs', 'serve.md'), 'utf8'))!;

const CHECK = `
import json
asked = dict(model="base", messages=[{"role": "user", "content": "What is 17 + 25?"}], temperature=0, max_tokens=40)
stream = client.chat.completions.create(**asked, stream=True, logprobs=True, extra_body={"return_token_ids": True})
chunks = [chunk.choices[0] for chunk in stream if chunk.choices]
print(json.dumps({
    "text": "".join(chunk.delta.content or "" for chunk in chunks),
    "ids": [id for chunk in chunks for id in getattr(chunk, "token_ids", None) or []],
    "logprobs": [token.logprob for chunk in chunks if chunk.logprobs for token in chunk.logprobs.content],
    "finish": chunks[-1].finish_reason,
    "models": [model.id for model in client.models.list()],
}))
`;

test("OpenAI's Python client gets the tokens and log-probs of the engine", async () => {
  await using model = await openModel(realModel('bfloat16'), { device: 'cpu' });
  const server = await startServer(model, { port: 0, key: KEY });
  try {
    const here = example!
      .replace(/http:\/\/[^"]+/, server.address)
      .replace(/api_key="[^"]+"/, `api_key="${KEY}"`)
      .replace('"final"', '"base"');
    const { stdout } = await promisify(execFile)(PYTHON, ['-c', here + CHECK]);
    const [said, ...rest] = stdout.trimEnd().split('\n').reverse();
    expect(rest.join('\n').trim()).not.toBe('');
    const options = { weights: 'base', temperature: 0, maxNewTokens: 40 };
    const question = [{ role: 'user' as const, content: 'What is 17 + 25?' }];
    const { text, ids, logprobs, finish } = await model.chat(question, options).result();
    expect(JSON.parse(said!)).toEqual({ text, ids, logprobs, finish, models: ['base'] });
  } finally {
    await server.close();
  }
});
