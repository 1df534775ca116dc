/**
 * A local server that speaks the Hugging Face hub's protocol: repository info, the paginated tree, `resolve`
 * with redirects (large files to a CDN on another port), ranges, the hub's headers and error codes; pushing is in
 * hub-push.js. Plain
 * JavaScript, because scripts/fixtures/hub_cache.py runs it too: `node test/helpers/hub-server.js` serves
 * SAMPLE and prints its address.
 */
const { createHash } = require('node:crypto');
const http = require('node:http');
const { PushSide } = require('./hub-push');

/** @typedef {{ content: Buffer, gitId: string, sha256: string | null }} StoredFile */
/**
 * @typedef {object} Repository
 * @property {Record<string, Record<string, StoredFile>>} commits
 * @property {Record<string, string>} refs
 * @property {boolean} gated
 * @property {string | null} readers a token that may read it; null: anyone
 */
/**
 * Faults when serving a file's content, one per entry, in order.
 * @typedef {{ cutAfter: number } | { silentAfter: number } | { status: number } | { wrongBytes: true }
 *   | { slowly: number }} Fault
 */

/** @param {string} kind @param {string | Buffer} data */
const digest = (kind, data) => createHash(kind).update(data).digest('hex');
/** @param {Buffer} content */
const gitBlobId = (content) =>
  digest('sha1', Buffer.concat([Buffer.from(`blob ${content.length}\0`), content]));

/** @param {Buffer | string} data @param {boolean} lfs @returns {StoredFile} */
function storedFile(data, lfs) {
  const content = Buffer.from(data);
  if (!lfs) return { content, gitId: gitBlobId(content), sha256: null };
  const sha256 = digest('sha256', content);
  const pointer = `version https://git-lfs.github.com/spec/v1\noid sha256:${sha256}\nsize ${content.length}\n`;
  return { content, gitId: gitBlobId(Buffer.from(pointer)), sha256 };
}

/** Incompressible bytes, the same for the same key. @param {string} key @param {number} size */
function noise(key, size) {
  const blocks = [];
  for (let i = 0; i * 32 < size; i++) blocks.push(createHash('sha256').update(`${key} ${i}`).digest());
  return Buffer.concat(blocks).subarray(0, size);
}

/** A group that every match holds. @param {RegExpExecArray} match @param {number} index */
const group = (match, index) => /** @type {string} */ (match[index]);

const LFS = /\.(safetensors|bin|parquet|gguf)$|(^|\/)tokenizer\.json$/;

class HubServer {
  constructor() {
    /** @type {Map<string, Repository>} */
    this.repositories = new Map();
    /** @type {string[]} `GET /path` in order of arrival; requests to the CDN begin with `CDN `. */
    this.log = [];
    /** @type {Map<string, Fault[]>} by path in the repository */
    this.faults = new Map();
    this.pageSize = 3;
    /** When false, ranges are ignored, as some mirrors do. */
    this.ranges = true;
    /** @type {string[]} tokens the server knows */
    this.tokens = ['hf_reader', 'hf_stranger', 'hf_writer'];
    /** @type {Map<string, StoredFile & { path: string }>} */
    this.cdnFiles = new Map();
    this.pushed = new PushSide(this);
    this.storedFile = storedFile;
    this.isLarge = (/** @type {string} */ path) => LFS.test(path);
    this.hub = http.createServer((request, response) => this.answer(request, response));
    this.cdn = http.createServer((request, response) => this.answerCdn(request, response));
    this.endpoint = '';
    this.cdnEndpoint = '';
  }

  async start() {
    this.endpoint = await listen(this.hub, '127.0.0.1');
    // On another host, because huggingface_hub takes a redirect within one host for a renamed repository.
    this.cdnEndpoint = await listen(this.cdn, '127.0.0.2');
    return this;
  }

  async stop() {
    for (const server of [this.hub, this.cdn]) {
      server.closeAllConnections();
      await new Promise((done) => server.close(done));
    }
  }

  /**
   * Adds a commit to `models/org/name` or `datasets/org/name` and moves `main` to it.
   * @param {string} name @param {Record<string, Buffer | string>} files
   * @param {{ gated?: boolean, readers?: string | null, branch?: string }} [options]
   * @returns {string} the commit
   */
  add(name, files, { gated = false, readers = null, branch = 'main' } = {}) {
    const repository = this.repositories.get(name) ?? { commits: {}, refs: {}, gated, readers };
    this.repositories.set(name, repository);
    const stored = Object.fromEntries(
      Object.entries(files).map(([path, data]) => [path, storedFile(Buffer.from(data), LFS.test(path))]),
    );
    const commit = digest(
      'sha1',
      `${name} ${branch} ${JSON.stringify(Object.entries(stored).map(([p, f]) => [p, f.gitId]))}`,
    );
    repository.commits[commit] = stored;
    repository.refs[branch] = commit;
    return commit;
  }

  /**
   * @param {http.ServerResponse} response @param {number} status
   * @param {string} code @param {string} message
   */
  refuse(response, status, code, message) {
    const headers = { 'x-error-message': message, 'content-type': 'application/json' };
    response.writeHead(status, code === '' ? headers : { ...headers, 'x-error-code': code });
    response.end(JSON.stringify({ error: message }));
  }

  /**
   * The repository and commit, or null if the request was rejected.
   * @param {http.IncomingMessage} request @param {http.ServerResponse} response
   * @param {string} name @param {string} revision
   */
  find(request, response, name, revision) {
    const token = /^Bearer (.*)$/.exec(request.headers.authorization ?? '')?.[1] ?? null;
    if (token !== null && !this.tokens.includes(token)) {
      this.refuse(response, 401, '', 'Invalid credentials in Authorization header');
      return null;
    }
    const repository = this.repositories.get(name);
    if (
      repository === undefined ||
      (!repository.gated && repository.readers !== null && repository.readers !== token)
    ) {
      this.refuse(response, token === null ? 401 : 404, 'RepoNotFound', 'Repository not found');
      return null;
    }
    const commit = repository.refs[revision] ?? revision;
    const files = repository.commits[commit];
    if (files === undefined) {
      this.refuse(response, 404, 'RevisionNotFound', `Invalid rev id: ${revision}`);
      return null;
    }
    return { repository, commit, files, token };
  }

  /** @param {http.IncomingMessage} request @param {http.ServerResponse} response */
  answer(request, response) {
    // The hub's links name the host that was asked for.
    const url = new URL(request.url ?? '/', `http://${request.headers.host}`);
    const path = decodeURIComponent(url.pathname);
    this.log.push(`${request.method} ${path}`);
    if (this.pushed.answer(request, response, path)) return;
    const info = /^\/api\/((?:models|datasets)\/[^/]+\/[^/]+)(?:\/revision\/(.+))?$/.exec(path);
    const tree = /^\/api\/((?:models|datasets)\/[^/]+\/[^/]+)\/tree\/([^/]+)$/.exec(path);
    const file = /^\/(datasets\/)?([^/]+\/[^/]+)\/resolve\/([^/]+)\/(.+)$/.exec(path);
    const cached = /^\/api\/resolve-cache\/((?:models|datasets)\/[^/]+\/[^/]+)\/([^/]+)\/(.+)$/.exec(path);
    if (tree) this.answerTree(request, response, url, group(tree, 1), group(tree, 2));
    else if (info) this.answerInfo(request, response, group(info, 1), info[2] ?? 'main');
    else if (cached)
      this.answerFile(request, response, group(cached, 1), group(cached, 2), group(cached, 3), true);
    else if (file)
      this.answerFile(
        request,
        response,
        `${file[1] ?? 'models/'}${file[2]}`,
        group(file, 3),
        group(file, 4),
        false,
      );
    else this.refuse(response, 404, '', 'Sorry, we cannot find the page you are looking for.');
  }

  /**
   * @param {http.IncomingMessage} request @param {http.ServerResponse} response
   * @param {string} name @param {string} revision
   */
  answerInfo(request, response, name, revision) {
    const fault = this.faults.get(`info ${name}`)?.shift();
    if (fault && 'status' in fault) return void response.writeHead(fault.status).end();
    const found = this.find(request, response, name, revision);
    if (found === null) return;
    const id = name.replace(/^\w+\//, '');
    response.writeHead(200, { 'content-type': 'application/json', 'x-repo-commit': found.commit });
    const siblings = Object.keys(found.files).map((rfilename) => ({ rfilename }));
    response.end(
      JSON.stringify({
        _id: '1',
        id,
        modelId: id,
        sha: found.commit,
        private: found.repository.readers !== null,
        gated: found.repository.gated ? 'manual' : false,
        disabled: false,
        downloads: 0,
        likes: 0,
        tags: [],
        lastModified: '2026-01-01T00:00:00.000Z',
        siblings,
      }),
    );
  }

  /**
   * @param {http.IncomingMessage} request @param {http.ServerResponse} response @param {URL} url
   * @param {string} name @param {string} revision
   */
  answerTree(request, response, url, name, revision) {
    const found = this.find(request, response, name, revision);
    if (found === null) return;
    const folders = new Set(
      Object.keys(found.files).flatMap((path) =>
        path
          .split('/')
          .slice(0, -1)
          .map((_, i, all) => all.slice(0, i + 1).join('/')),
      ),
    );
    const entries = [
      ...[...folders].map((path) => ({ type: 'directory', oid: digest('sha1', path), size: 0, path })),
      ...Object.entries(found.files).map(([path, { content, gitId, sha256 }]) => ({
        type: 'file',
        oid: gitId,
        size: content.length,
        path,
        ...(sha256 !== null && {
          lfs: { oid: sha256, size: content.length, pointerSize: 130 },
          xetHash: digest('sha256', sha256),
        }),
      })),
    ];
    const from = Number(url.searchParams.get('cursor') ?? 0);
    const next = from + this.pageSize;
    url.searchParams.set('cursor', String(next));
    const link = next < entries.length ? { link: `<${url.href}>; rel="next"` } : {};
    response.writeHead(200, { 'content-type': 'application/json', ...link });
    response.end(JSON.stringify(entries.slice(from, next)));
  }

  /**
   * @param {http.IncomingMessage} request @param {http.ServerResponse} response
   * @param {string} name @param {string} revision @param {string} path @param {boolean} cached
   */
  answerFile(request, response, name, revision, path, cached) {
    const found = this.find(request, response, name, revision);
    if (found === null) return;
    const { repository, commit, files, token } = found;
    if (repository.gated && repository.readers !== token) {
      const id = name.replace(/^\w+\//, '');
      const message = `Access to model ${id} is restricted. You must have access to it and be authenticated to access it.`;
      return this.refuse(response, token === null ? 401 : 403, 'GatedRepo', message);
    }
    const file = files[path];
    if (file === undefined) return this.refuse(response, 404, 'EntryNotFound', 'Entry not found');
    response.setHeader('x-repo-commit', commit);
    response.setHeader('accept-ranges', 'bytes');
    if (file.sha256 !== null) {
      const size = file.content.length;
      this.cdnFiles.set(file.sha256, { ...file, path });
      response.writeHead(302, {
        location: `${this.cdnEndpoint}/repos/${file.sha256}?signature=1`,
        'x-linked-size': size,
        'x-linked-etag': `"${file.sha256}"`,
        etag: `"${digest('sha1', file.sha256)}"`,
      });
      return void response.end(`Found. Redirecting to ${this.cdnEndpoint}`);
    }
    response.setHeader('etag', `"${file.gitId}"`);
    if (!cached) {
      const encoded = path.split('/').map(encodeURIComponent).join('/');
      response.writeHead(307, { location: `/api/resolve-cache/${name}/${commit}/${encoded}` });
      return void response.end();
    }
    this.send(request, response, path, file.content);
  }

  /** @param {http.IncomingMessage} request @param {http.ServerResponse} response */
  answerCdn(request, response) {
    if (request.method === 'PUT') return this.pushed.answerCdn(request, response);
    const file = this.cdnFiles.get(/^\/repos\/(\w+)\?signature=1$/.exec(request.url ?? '')?.[1] ?? '');
    this.log.push(`CDN ${request.method} ${file?.path} ${request.headers.range ?? 'whole'}`);
    // Like object stores: a signed address together with a token is rejected.
    if (request.headers.authorization !== undefined)
      return void response.writeHead(400).end('two ways of access');
    if (file === undefined) return void response.writeHead(403).end('signature');
    response.setHeader('etag', `"${digest('md5', String(file.sha256))}"`);
    this.send(request, response, file.path, file.content);
  }

  /**
   * @param {http.IncomingMessage} request @param {http.ServerResponse} response
   * @param {string} path @param {Buffer} content
   */
  send(request, response, path, content) {
    const range = this.ranges ? /^bytes=(\d+)-(\d*)$/.exec(request.headers.range ?? '') : null;
    const start = range ? Number(range[1]) : 0;
    if (range && start >= content.length) {
      response.writeHead(416, { 'content-range': `bytes */${content.length}` });
      return void response.end();
    }
    const end = range && range[2] !== '' ? Math.min(Number(range[2]) + 1, content.length) : content.length;
    let body = content.subarray(start, end);
    const length = body.length;
    const fault = request.method === 'HEAD' ? undefined : this.faults.get(path)?.shift();
    if (fault && 'status' in fault)
      return void response.writeHead(fault.status, { 'retry-after': '0' }).end();
    if (fault && 'wrongBytes' in fault) body = Buffer.from(body.map((byte) => byte ^ 1));
    const ranged = range ? { 'content-range': `bytes ${start}-${end - 1}/${content.length}` } : {};
    response.writeHead(range ? 206 : 200, {
      'content-length': length,
      'content-type': 'application/octet-stream',
      ...ranged,
    });
    if (request.method === 'HEAD') return void response.end();
    if (fault && 'cutAfter' in fault)
      response.write(body.subarray(0, fault.cutAfter), () => response.destroy());
    else if (fault && 'silentAfter' in fault) response.write(body.subarray(0, fault.silentAfter));
    else if (fault && 'slowly' in fault) void slowly(response, body, fault.slowly);
    else response.end(body);
  }
}

/** @param {http.Server} server @param {string} host @returns {Promise<string>} the address */
async function listen(server, host) {
  await /** @type {Promise<void>} */ (new Promise((done) => void server.listen(0, host, done)));
  return `http://${host}:${/** @type {import('node:net').AddressInfo} */ (server.address()).port}`;
}

/**
 * Sends twenty pieces over `ms`.
 * @param {http.ServerResponse} response @param {Buffer} body @param {number} ms
 */
async function slowly(response, body, ms) {
  const piece = Math.ceil(body.length / 20);
  for (let at = 0; at < body.length && !response.destroyed; at += piece) {
    response.write(body.subarray(at, at + piece));
    await new Promise((done) => setTimeout(done, ms / 20));
  }
  response.end();
}

/**
 * A model and a data set for tests and the fixture script.
 * @type {Record<string, Record<string, Buffer | string>>}
 */
const SAMPLE = {
  'models/acoer-test/sample': {
    '.gitattributes': '*.safetensors filter=lfs diff=lfs merge=lfs -text\n',
    'README.md': '# A sample\n',
    'config.json': '{"model_type": "qwen3"}\n',
    'generation_config.json': '{"eos_token_id": 2}\n',
    'model-00001-of-00002.safetensors': noise('one', 300_000),
    'model-00002-of-00002.safetensors': noise('two', 200_000),
    'model.safetensors.index.json': '{"weight_map": {}}\n',
    'onnx/model.bin': noise('onnx', 5000),
    'pytorch_model.bin': noise('bin', 5000),
    'tokenizer.json': noise('tokenizer', 70_000),
    'tokenizer_config.json': '{"eos_token": "</s>"}\n',
  },
  'datasets/acoer-test/rows': {
    'README.md': '# Rows\n',
    'data/test-00000-of-00001.parquet': noise('test', 9000),
    'data/train-00000-of-00001.parquet': noise('train', 20_000),
    'data/a name with spaces & signs#?.jsonl': '{"question": "1+1?"}\n',
  },
};

if (require.main === module) {
  const server = new HubServer();
  for (const [name, files] of Object.entries(SAMPLE)) server.add(name, files);
  void server.start().then(() => process.stdout.write(`${server.endpoint}\n`));
  // `log` on stdin: the requests since the last time, as one line of JSON.
  process.stdin.on('data', () => process.stdout.write(`${JSON.stringify(server.log.splice(0))}\n`));
  process.stdin.on('end', () => process.exit(0));
}

module.exports = { HubServer, SAMPLE, noise };
