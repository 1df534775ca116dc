/** What several servers do as one, against a clock that the test moves. */
import http from 'node:http';
import type { AddressInfo } from 'node:net';
import { ServerPool } from '../../src/samplers/vllm/pool';
import { wantedOf } from '../../src/samplers/vllm/wire';

const prompt = {
  ...{ ids: Int32Array.of(5, 6), thinkOpened: false, firstSample: 0, numSamples: 1 },
  ...{ seed: 1n, maxNewTokens: 2 },
};
const [wanted] = wantedOf([prompt], 1, Int32Array.of(2));
const adapter = { name: 'a-v1', folder: '/adapters/a-v1' };

const answer = {
  model: adapter.name,
  choices: [
    {
      finish_reason: 'stop',
      token_ids: [7, 2],
      prompt_token_ids: [5, 6],
      logprobs: { token_logprobs: [-1, -2] },
    },
  ],
  usage: { completion_tokens: 2, prompt_tokens: 2 },
};

let loads = 0;
const server = http.createServer((request, response) => {
  request.resume();
  if (request.url === '/v1/completions') response.end(JSON.stringify(answer));
  // The first attempt fails.
  else response.writeHead(++loads === 1 ? 500 : 200).end('{}');
});
beforeAll(() => new Promise<void>((done) => server.listen(0, '127.0.0.1', done)));
afterEach(() => jest.restoreAllMocks());
afterAll(() => {
  server.closeAllConnections();
  server.close();
});

test('a server whose wait ends while it is looked for is asked again', async () => {
  const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
  const pool = new ServerPool({
    ...{ servers: [url], key: null, requests: 4, patienceMs: 60_000, vocabSize: 10 },
    prove: () => Promise.resolve({ name: 'base', maxModelLen: null }),
    warn: () => undefined,
  });
  // Of the wait of 500 ms after the failure, 450 are over when servers are looked for, and 600 at the next look.
  let clockMs = 0;
  jest.spyOn(performance, 'now').mockImplementation(() => (clockMs += 150));
  const { retries, answered } = await pool.complete(wanted!, adapter, new AbortController().signal);
  expect({ retries, ids: [...answered.ids], finish: answered.finish }).toEqual({
    retries: 1,
    ids: [7, 2],
    finish: 'stop',
  });
  await pool.close();
}, 5_000);
