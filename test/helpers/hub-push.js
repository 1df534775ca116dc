/**
 * The half of the stand-in hub that takes files: repositories and branches are created, large files go to the CDN's
 * address (whole or in parts), and a commit in NDJSON names them. What arrives is kept in `received`, to be searched.
 */
const { createHash } = require('node:crypto');

/** @typedef {import('node:http').IncomingMessage} Request */
/** @typedef {import('node:http').ServerResponse} Response */
/** @typedef {import('./hub-server').HubServer} HubServer */
/**
 * What goes wrong, by step, one per request in order. `cutAfter`: bytes of the request after which the connection
 * breaks. `lostAnswer`: the work is done, then the connection breaks. `meanwhile`: someone else commits first.
 * @typedef {{ status: number, headers?: Record<string, string>, text?: string } | { cutAfter: number }
 *   | { lostAnswer: true } | { silent: true } | { meanwhile: true } | { answer: unknown }} PushFault
 */
/** @typedef {{ method: string, url: string, headers: string, authorization: string | null, body: Buffer }} Received */

/** @param {string} kind @param {Buffer | string} data */
const digest = (kind, data) => createHash(kind).update(data).digest('hex');

/** @param {Response} response @param {unknown} value @param {Record<string, string>} [headers] */
function json(response, value, headers = {}) {
  response.writeHead(200, { 'content-type': 'application/json', ...headers });
  response.end(JSON.stringify(value));
}

class PushSide {
  /** @param {HubServer} server */
  constructor(server) {
    this.server = server;
    /** @type {Received[]} */
    this.received = [];
    /** @type {Map<string, PushFault[]>} by step: create, branch, preupload, batch, upload, part, complete, commit */
    this.faults = new Map();
    /** @type {Record<string, string[]>} the names under which a token may write */
    this.writers = { hf_writer: ['acoer-test'] };
    /** @type {Map<string, Buffer>} by SHA-256 */
    this.stored = new Map();
    /** @type {Map<string, Buffer[]>} by SHA-256 */
    this.parts = new Map();
    /** Larger files are sent in parts of this size. */
    this.partBytes = Infinity;
    /** Files of this size and more are sent apart, whatever they are called. */
    this.apartBytes = 1 << 20;
    /** Called as a request of a step begins. @type {(step: string) => void} */
    this.onBegin = () => undefined;
    this.commits = 0;
  }

  /**
   * Answers a request that changes something; false if it is none.
   * @param {Request} request @param {Response} response @param {string} path
   */
  answer(request, response, path) {
    const model = '([^/]+/[^/]+)';
    const steps = /** @type {const} */ ([
      ['create', /^\/api\/repos\/create$/],
      ['branch', new RegExp(`^/api/models/${model}/branch/(.+)$`)],
      ['preupload', new RegExp(`^/api/models/${model}/preupload/(.+)$`)],
      ['batch', new RegExp(`^/${model}\\.git/info/lfs/objects/batch$`)],
      ['complete', /^\/api\/complete_multipart\/(\w+)$/],
      ['commit', new RegExp(`^/api/models/${model}/commit/(.+)$`)],
    ]);
    if (request.method !== 'POST') {
      this.keep(request, Buffer.alloc(0));
      return false;
    }
    for (const [step, pattern] of steps) {
      const match = pattern.exec(path);
      if (match === null) continue;
      void this.take(step, request, response, (body) =>
        this[step](request, response, body, match[1] ?? '', match[2] ?? ''),
      );
      return true;
    }
    return false;
  }

  /** An upload to the CDN. @param {Request} request @param {Response} response */
  answerCdn(request, response) {
    const match = /^\/upload\/(\w+)(?:\/(\d+))?\?signature=1$/.exec(request.url ?? '');
    const step = match?.[2] === undefined ? 'upload' : 'part';
    void this.take(step, request, response, (body) => {
      if (request.headers.authorization !== undefined)
        return void response.writeHead(400).end('two ways of access');
      if (match === null) return void response.writeHead(403).end('signature');
      const [, sha = '', part] = match;
      if (part === undefined) {
        if (digest('sha256', body) !== sha) return void response.writeHead(400).end('BadDigest');
        this.stored.set(sha, body);
      } else {
        const parts = this.parts.get(sha) ?? [];
        parts[Number(part) - 1] = body;
        this.parts.set(sha, parts);
      }
      response.writeHead(200, { etag: `"${digest('md5', body)}"` }).end();
    });
  }

  /**
   * Receives the request, with the step's next fault, and does the work.
   * @param {string} step @param {Request} request @param {Response} response @param {(body: Buffer) => void} work
   */
  async take(step, request, response, work) {
    const fault = this.faults.get(step)?.shift();
    /** @type {Buffer[]} */
    const pieces = [];
    let bytes = 0;
    this.onBegin(step);
    try {
      for await (const piece of request) {
        pieces.push(piece);
        bytes += piece.length;
        if (fault && 'cutAfter' in fault && bytes >= fault.cutAfter) return void request.destroy();
      }
    } catch (error) {
      // The client hung up.
      if (/** @type {{ code?: string }} */ (error).code === 'ECONNRESET') return;
      throw error;
    } finally {
      this.keep(request, Buffer.concat(pieces));
    }
    if (fault && 'silent' in fault) return;
    if (fault && 'status' in fault) {
      response.writeHead(fault.status, { 'content-type': 'application/json', ...fault.headers });
      return void response.end(fault.text ?? '{"error": "the fault that was asked for"}');
    }
    if (fault && 'answer' in fault) return json(response, fault.answer);
    if (fault && 'cutAfter' in fault) return void request.destroy();
    if (fault && 'meanwhile' in fault) this.commitOfOthers();
    if (fault && 'lostAnswer' in fault) {
      response.end = /** @type {never} */ (() => response.destroy());
      response.writeHead = () => response;
    }
    work(Buffer.concat(pieces));
  }

  /** @param {Request} request @param {Buffer} body */
  keep({ method = '', url = '', headers: all }, body) {
    const { authorization = null, ...headers } = all;
    this.received.push({ method, url, headers: JSON.stringify(headers), authorization, body });
  }

  /** Everyone else adds a file to every repository. */
  commitOfOthers() {
    for (const repository of this.server.repositories.values()) {
      const files = repository.commits[repository.refs.main ?? ''] ?? {};
      this.append(repository, 'main', { ...files, 'notes.txt': this.server.storedFile('theirs', false) });
    }
  }

  /**
   * @param {import('./hub-server').Repository} repository @param {string} branch
   * @param {Record<string, import('./hub-server').StoredFile>} files
   */
  append(repository, branch, files) {
    const commit = digest('sha1', `${branch} ${this.commits++}`);
    repository.commits[commit] = files;
    repository.refs[branch] = commit;
    return commit;
  }

  /** The writer's token, or null after a refusal. @param {Request} request @param {Response} response @param {string} id */
  writer(request, response, id) {
    const token = /^Bearer (.*)$/.exec(request.headers.authorization ?? '')?.[1] ?? '';
    if (!this.server.tokens.includes(token) && !Object.hasOwn(this.writers, token)) {
      this.server.refuse(response, 401, '', 'Invalid credentials in Authorization header');
      return null;
    }
    if (this.writers[token]?.includes(id.split('/')[0] ?? '') === true) return token;
    this.server.refuse(response, 403, '', `You don't have the rights to write to ${id}`);
    return null;
  }

  /** @param {Request} request @param {Response} response @param {Buffer} body */
  create(request, response, body) {
    const { name, organization, visibility, type } = JSON.parse(body.toString());
    const id = `${organization}/${name}`;
    const token = this.writer(request, response, id);
    if (token === null) return;
    if (this.server.repositories.has(`${type}s/${id}`))
      return this.server.refuse(response, 409, '', 'You already created this model repo');
    const readers = visibility === 'public' ? null : token;
    this.server.add(`${type}s/${id}`, { '.gitattributes': '*.safetensors filter=lfs\n' }, { readers });
    json(response, { url: `${this.server.endpoint}/${id}`, id, name: id });
  }

  /** @param {Request} request @param {Response} response @param {Buffer} _ @param {string} id @param {string} branch */
  branch(request, response, _, id, branch) {
    const found = this.open(request, response, id, 'main');
    if (found === null) return;
    const { refs } = found.repository;
    if (refs[branch] !== undefined) return this.server.refuse(response, 409, '', 'Reference already exists');
    refs[branch] = found.commit;
    json(response, { success: true });
  }

  /** @param {Request} request @param {Response} response @param {string} id @param {string} branch */
  open(request, response, id, branch) {
    if (this.writer(request, response, id) === null) return null;
    return this.server.find(request, response, `models/${id}`, branch);
  }

  /**
   * @param {Request} request @param {Response} response @param {Buffer} body
   * @param {string} id @param {string} branch
   */
  preupload(request, response, body, id, branch) {
    if (this.open(request, response, id, branch) === null) return;
    /** @type {{ files: { path: string, size: number, sample: string }[] }} */
    const { files } = JSON.parse(body.toString());
    json(response, {
      files: files.map(({ path, size }) => ({
        path,
        uploadMode: size >= this.apartBytes || this.server.isLarge(path) ? 'lfs' : 'regular',
        shouldIgnore: false,
        oid: null,
      })),
    });
  }

  /** @param {Request} request @param {Response} response @param {Buffer} body @param {string} id */
  batch(request, response, body, id) {
    if (this.open(request, response, id, 'main') === null) return;
    /** @type {{ objects: { oid: string, size: number }[], transfers: string[] }} */
    const { objects, transfers } = JSON.parse(body.toString());
    if (transfers.includes('xet')) return this.server.refuse(response, 400, '', 'no xet here');
    const place = `${this.server.cdnEndpoint}/upload`;
    json(
      response,
      {
        transfer: 'basic',
        objects: objects.map(({ oid, size }) => {
          if (this.stored.has(oid)) return { oid, size };
          const whole = { href: `${place}/${oid}?signature=1` };
          const count = Math.ceil(size / this.partBytes);
          const part = (/** @type {number} */ i) => [
            String(i + 1).padStart(5, '0'),
            `${place}/${oid}/${i + 1}?signature=1`,
          ];
          const parts = {
            href: `${this.server.endpoint}/api/complete_multipart/${oid}`,
            header: {
              chunk_size: String(this.partBytes),
              ...Object.fromEntries(Array.from({ length: count }, (_, i) => part(i))),
            },
          };
          return { oid, size, actions: { upload: size > this.partBytes ? parts : whole } };
        }),
      },
      { 'x-request-id': 'batch-1' },
    );
  }

  /** @param {Request} _ @param {Response} response @param {Buffer} body @param {string} sha */
  complete(_, response, body, sha) {
    /** @type {{ parts: { partNumber: number, etag: string }[] }} */
    const { parts } = JSON.parse(body.toString());
    const pieces = this.parts.get(sha) ?? [];
    const wrong = parts.some(
      ({ partNumber, etag }) => etag !== `"${digest('md5', pieces[partNumber - 1] ?? '')}"`,
    );
    const whole = Buffer.concat(pieces);
    if (wrong || digest('sha256', whole) !== sha) return this.server.refuse(response, 400, '', 'wrong parts');
    this.stored.set(sha, whole);
    json(response, { success: true });
  }

  /**
   * @param {Request} request @param {Response} response @param {Buffer} body
   * @param {string} id @param {string} branch
   */
  commit(request, response, body, id, branch) {
    const found = this.open(request, response, id, branch);
    if (found === null) return;
    const files = { ...found.files };
    for (const line of body.toString().split('\n')) {
      const { key, value } = JSON.parse(line);
      if (key === 'header' && value.parentCommit !== undefined && value.parentCommit !== found.commit)
        return this.server.refuse(
          response,
          412,
          '',
          'A commit has happened since. Please refresh and try again.',
        );
      if (key === 'file')
        files[value.path] = this.server.storedFile(Buffer.from(value.content, value.encoding), false);
      if (key === 'lfsFile') {
        const content = this.stored.get(value.oid);
        if (content?.length !== value.size)
          return this.server.refuse(response, 400, '', `${value.path} was not uploaded`);
        files[value.path] = this.server.storedFile(/** @type {Buffer} */ (content), true);
      }
    }
    const commitOid = this.append(found.repository, branch, files);
    json(response, {
      success: true,
      commitOid,
      commitUrl: `${this.server.endpoint}/${id}/commit/${commitOid}`,
      hookOutput: '',
    });
  }
}

/**
 * All that arrived but the tokens in their own header: as it was sent, and what is in base64.
 * @param {readonly Received[]} received @returns {string}
 */
function allReceived(received) {
  return received
    .map(({ method, url, headers, body }) => {
      const text = body.toString('latin1');
      const inside = [...text.matchAll(/"(?:content|sample)":"([A-Za-z0-9+/=]+)"/g)].map(([, data]) =>
        Buffer.from(data ?? '', 'base64').toString('latin1'),
      );
      return [method, decodeURIComponent(url), headers, text, ...inside].join('\n');
    })
    .join('\n');
}

module.exports = { PushSide, allReceived };
