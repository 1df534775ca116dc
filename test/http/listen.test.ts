/** What a connection is told that brings no request. */
import { once } from 'node:events';
import { connect } from 'node:net';
import { closeServer, listenSomewhere, LOOPBACK, makeServer } from '../../src/http';

const LIMITS = {
  ...{ headerBytes: 1024, headersMs: 100, requestMs: 200, keepAliveMs: 1000, checkMs: 20 },
  ...{ connections: 8, strangers: 8 },
};
const server = makeServer(LIMITS, (_, response) => response.end('answered'));
let port: number;
beforeAll(async () => (port = await listenSomewhere(server, LOOPBACK, { given: 0, first: 0 })));
afterAll(() => closeServer(server, 0));

async function told(text: string): Promise<string> {
  const socket = connect(port, LOOPBACK);
  let all = '';
  socket.on('data', (chunk) => (all += chunk.toString()));
  socket.write(text);
  await once(socket, 'close');
  return all;
}

test.each([
  ['nothing at all', '', '408 Request Timeout'],
  ['half a request', 'POST / HTTP/1.1\r\nContent-Le', '408 Request Timeout'],
  [
    'too long headers',
    `GET / HTTP/1.1\r\nX: ${'x'.repeat(5000)}\r\n\r\n`,
    '431 Request Header Fields Too Large',
  ],
  ['another protocol', '\x16\x03\x01\x02\x00\x01\r\n', '400 Bad Request'],
])('%s', async (_, text, status) => {
  expect(await told(text)).toBe(`HTTP/1.1 ${status}\r\nConnection: close\r\n\r\n`);
});
