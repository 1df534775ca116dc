/** The hub's answers for the fuzzer: a hub that says what an input says, without a network. */
'use strict';

const { createHash } = require('node:crypto');
const { readdirSync } = require('node:fs');
const { dirname, sep } = require('node:path');
const timers = require('node:timers/promises');
const { parts, together } = require('./fuzz-seeds.cjs');

const ENDPOINT = 'https://hub.example';
const COMMIT = '0123456789abcdef0123456789abcdef01234567';
const NO_BODY = new Set([204, 205, 304]);

/**
 * Answers as an input: for each a head (JSON with status and headers) and a body.
 * @param {[head: object, body: string | object][]} answers
 */
const answers = (...answers) =>
  together(
    ...answers.flatMap(([head, body]) => [
      JSON.stringify(head),
      typeof body === 'string' ? body : JSON.stringify(body),
    ]),
  );

/** @param {string} path @param {string} text */
const gitFile = (path, text) => ({
  type: 'file', path, size: text.length, oid: createHash('sha1').update(`blob ${text.length}\0${text}`).digest('hex'),
}); // prettier-ignore
/** @param {string} path @param {string} text */
const lfsFile = (path, text) => ({
  ...gitFile(path, text),
  lfs: { oid: createHash('sha256').update(text).digest('hex'), size: text.length, pointerSize: 130 },
  xetHash: 'a'.repeat(64),
});

const info = { id: 'org/name', sha: COMMIT, private: false, gated: false, downloads: 1, likes: 2, lastModified: '2026-01-01T00:00:00.000Z', tags: ['x'] }; // prettier-ignore
const rows = '{"problem": "1+1?", "answer": "2"}\n';
const next = { link: `<${ENDPOINT}/api/datasets/org/name/tree/${COMMIT}?cursor=2>; rel="next"` };
/** @param {Record<string, string>} [headers] */
const ok = (headers = {}) => ({ status: 200, headers });

const seeds = () => ({
  whole: answers([ok(), info], [ok(), [gitFile('README.md', '# x'), { type: 'directory', path: 'data', oid: COMMIT, size: 0 }, gitFile('data/train.jsonl', rows)]], [ok(), '# x'], [ok(), rows]),
  pages: answers([ok(), info], [ok(next), [gitFile('train.jsonl', rows)]], [ok(), [lfsFile('test.jsonl', rows)]], [ok(), info], [ok(), rows]),
  large: answers([ok(), info], [ok(), [lfsFile('train.jsonl', rows)]], [ok(), info], [{ status: 206, headers: { 'content-range': `bytes 0-9/${rows.length}` } }, rows], [ok({ 'content-length': '9' }), rows]),
  gated: answers([{ status: 403, headers: { 'x-error-code': 'GatedRepo', 'x-error-message': 'no' } }, { error: 'no' }]),
  missing: answers([{ status: 404, headers: { 'x-error-code': 'RepoNotFound' } }, { error: 'not there' }]),
  busy: answers([{ status: 429, headers: { 'retry-after': '2' } }, ''], [{ status: 503, headers: {} }, 'busy'], [ok(), info], [ok(), []]),
  portal: answers([ok({ 'content-type': 'text/html' }), '<html><body>Log in</body></html>']),
}); // prettier-ignore

/** @param {Buffer | undefined} head @param {Buffer | undefined} body */
function responseOf(head, body) {
  let [status, headers] = [404, new Headers()];
  try {
    const given = JSON.parse(String(head));
    status = Math.min(599, Math.max(200, Math.trunc(Number(given.status)) || 200));
    for (const [name, value] of Object.entries(given.headers ?? {})) headers.append(name, String(value));
  } catch {
    // What no HTTP client would hand over: the headers end here.
  }
  return new Response(NO_BODY.has(status) ? null : /** @type {any} */ (body ?? ''), { status, headers });
}

/** Answers requests in the order of the input; further ones are not found. @param {Buffer} bytes */
function hubOf(bytes) {
  const given = parts(bytes);
  let at = 0;
  return async () => responseOf(given[at++], given[at++]);
}

const { setTimeout: sleep } = timers;

/**
 * Fetches a data set from the hub that `bytes` describes.
 * @param {(name: string) => any} dist loads a file of the compiled package
 * @param {Buffer} bytes
 * @param {string} folder
 */
async function readHub(dist, bytes, folder) {
  Object.assign(process.env, { HF_HOME: folder, HF_ENDPOINT: ENDPOINT, HF_TOKEN: 'hf_x' });
  dist('hub/proxy.js').fetchThroughProxy = hubOf(bytes);
  // Retries wait a thousandth of their time.
  timers.setTimeout = /** @type {any} */ (
    (/** @type {number} */ ms, /** @type {any[]} */ ...rest) => sleep(ms / 1000, ...rest)
  );
  const around = readdirSync(dirname(folder)).join();
  const { fetchSplit } = dist('data/hub.js');
  const { files } = await fetchSplit(
    { repo: 'org/name', revision: null },
    { config: null, splits: ['train'], orOnly: true },
  );
  for (const { path } of files)
    if (!path.startsWith(folder + sep)) throw new Error(`a file outside of the cache: ${path}`);
  if (readdirSync(dirname(folder)).join() !== around) throw new Error('files outside of the cache');
}

module.exports = { readHub, seeds };
