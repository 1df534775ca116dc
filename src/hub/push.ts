/** Pushes files to a repository of models on the hub, in one commit. */
import { createHash } from 'node:crypto';
import { pathToFileURL } from 'node:url';
import type * as HubModule from '@huggingface/hub';
import { AcoerError, errorCode, errorMessage, hubError } from '../base/errors';
import { optionalPackage } from '../base/optional-package';
import { openRegularFile, sha256Of } from '../base/regular-file';
import { askFiles, askHead, type Head } from './answers';
import { checkedRepo, isCommit, looksLikeHubId, type Repo, repoPage, repoText } from './names';
import { pushLost } from './push-refusals';
import { Refusal } from './refusals';
import { ConnectionLost, type HubRequest, withRetries } from './retry';
import type { RemoteFile } from './schemas';
import { readHubSettings } from './settings';
import { type FileSize, pushFetch } from './upload';

export interface PushedFile extends FileSize {
  /** The bytes, or the path of a file with them. */
  content: Uint8Array | string;
  /** Leaves alone what the repository has under this path. */
  onlyIfMissing?: boolean;
}

export interface PushOptions {
  /** Of a repository that is created. @default 'private' */
  visibility?: 'private' | 'public';
  /** @default 'main' */
  branch?: string;
  /** The commit's title. */
  message: string;
  /** Throws if these files would not go together with those that are there. */
  checkTree?: (paths: readonly string[]) => void;
  onPhase?: (phase: string) => void;
  signal?: AbortSignal;
}

export interface Pushed {
  /** Address of the repository's page. */
  url: string;
  branch: string;
  /** The branch's newest commit. */
  commit: string;
  /** null: the server does not say. */
  private: boolean | null;
  created: boolean;
  /** Paths of what was committed; none: everything was there already, and no commit was made. */
  committed: string[];
}

type HubPackage = typeof HubModule;

interface Push {
  hub: HubPackage;
  request: HubRequest;
  fetch: typeof fetch;
  files: readonly PushedFile[];
  options: PushOptions;
}

/** What every call of the package is told. It takes only tokens that begin with hf_; `fetch` sends the real one. */
const common = ({ request, fetch }: Push) => ({
  repo: { type: 'model' as const, name: request.repo.id },
  hubUrl: request.settings.endpoint,
  accessToken: 'hf_token',
  fetch,
});

/** What `work` rejects with, except for a connection that stayed lost. */
async function reaching<T>(request: HubRequest, work: Promise<T>): Promise<T> {
  try {
    return await work;
  } catch (error) {
    throw error instanceof ConnectionLost ? pushLost(request, error) : error;
  }
}

const isThere = (error: unknown): boolean => error instanceof Refusal && error.status === 409;

async function create(push: Push): Promise<boolean> {
  const { hub, request, options } = push;
  const { visibility = 'private' } = options;
  options.onPhase?.(`creating ${request.repo.id} (${visibility})`);
  try {
    await hub.createRepo({ ...common(push), visibility });
    return true;
  } catch (error) {
    // Someone else was faster, or the lost answer to a first try said that it was created.
    if (isThere(error)) return false;
    throw error;
  }
}

/** The branch's newest commit; what is missing is created. */
async function openBranch(push: Push): Promise<{ head: Head; created: boolean }> {
  const { hub, request, options } = push;
  const { repo } = request;
  const ask = () => reaching(request, askHead(request));
  let created = false;
  let head = await ask();
  if ('missing' in head && head.missing === 'repository') {
    created = await create(push);
    head = await ask();
  }
  if ('missing' in head && head.missing === 'branch' && repo.revision !== 'main') {
    options.onPhase?.(`creating the branch ${repo.revision}`);
    try {
      await hub.createBranch({ ...common(push), branch: repo.revision });
    } catch (error) {
      if (!isThere(error)) throw error;
    }
    head = await ask();
  }
  if (!('missing' in head)) return { head, created };
  throw hubError(
    head.missing === 'repository'
      ? `${repo.id} is taken on ${request.settings.endpoint} by a repository that the current token cannot see; use a token that may write to it, or another name.`
      : `${repoText(repo)} has no branch ${repo.revision}, and none could be made; see ${repoPage(request.settings.endpoint, repo)}.`,
  );
}

/** git's id of a file's content. */
async function gitIdOf(content: Uint8Array | string, bytes: number, signal?: AbortSignal): Promise<string> {
  const hash = createHash('sha1').update(`blob ${bytes}\0`);
  if (typeof content !== 'string') return hash.update(content).digest('hex');
  const { file } = await openRegularFile(content);
  for await (const piece of file.createReadStream({ signal })) hash.update(piece as Buffer);
  return hash.digest('hex');
}

async function sameBytes(
  { bytes, content }: PushedFile,
  there: RemoteFile,
  signal?: AbortSignal,
): Promise<boolean> {
  if (there.size !== bytes) return false;
  if (there.sha256 === null) return (await gitIdOf(content, bytes, signal)) === there.gitId;
  if (typeof content !== 'string') {
    return createHash('sha256').update(content).digest('hex') === there.sha256;
  }
  return (await sha256Of((await openRegularFile(content)).file, signal)) === there.sha256;
}

/** The files that the commit lacks. */
async function missingFrom({ request, files, options }: Push, commit: string): Promise<PushedFile[]> {
  const tree = await reaching(request, askFiles(request, commit));
  options.checkTree?.(tree.map(({ path }) => path));
  const byPath = new Map(tree.map((file) => [file.path, file]));
  const missing: PushedFile[] = [];
  for (const file of files) {
    const there = byPath.get(file.path);
    if (there !== undefined && file.onlyIfMissing === true) continue;
    if (there === undefined || !(await sameBytes(file, there, options.signal))) missing.push(file);
  }
  return missing;
}

/** What the package says of answers that it cannot use, as a sentence; its other errors are ours already. */
function unusable({ request, options }: Push, error: unknown): unknown {
  const own = errorCode(error) !== undefined || error instanceof ConnectionLost || error instanceof TypeError;
  if (own || options.signal?.aborted === true) return error;
  const { endpoint } = request.settings;
  return hubError(
    `${endpoint} gave an answer to the push of ${repoText(request.repo)} that cannot be used (${errorMessage(error)}); check that HF_ENDPOINT is a Hugging Face hub.`,
    error,
  );
}

/** One commit with `files` on top of `parent`. */
async function commit(push: Push, parent: string, files: readonly PushedFile[]): Promise<string> {
  const { hub, request, options } = push;
  const steps = hub.commitIter({
    ...common({ ...push, fetch: pushFetch(request, files) }),
    operations: files.map(({ path, content }) => ({
      operation: 'addOrUpdate',
      path,
      content:
        typeof content === 'string' ? pathToFileURL(content) : new Blob([content as Uint8Array<ArrayBuffer>]),
    })),
    title: options.message,
    branch: request.repo.revision,
    // Whatever comes in between is refused, so a commit whose answer was lost is never made twice.
    parentCommit: parent,
    // Its requests end with no signal and have hosts of their own; the hub takes either way (docs/decisions/0260).
    useXet: false,
    ...(options.signal !== undefined && { abortSignal: options.signal }),
  });
  let sending: string | undefined;
  for (;;) {
    const { done, value } = await steps.next();
    if (done === true) return value!.commit.oid;
    if (value.event === 'phase' && value.phase === 'committing') options.onPhase?.('committing');
    if (value.event !== 'fileProgress' || value.state !== 'uploading' || value.path === sending) continue;
    if (value.progress === 1) continue;
    sending = value.path;
    options.onPhase?.(`sending ${sending}`);
  }
}

async function pushed(push: Push): Promise<Pushed> {
  const { request, options } = push;
  const { repo, settings } = request;
  const { created, ...opened } = await openBranch(push);
  if (opened.head.private === false && options.visibility === 'private') {
    throw hubError(
      `${repo.id} is public already; make it private on ${repoPage(settings.endpoint, repo)}/settings, or push without --private.`,
    );
  }
  const about = { url: repoPage(settings.endpoint, repo), branch: repo.revision, created };
  // An answer that is lost leaves unknown whether the commit was made: whoever looks again, knows.
  let { head } = opened;
  return reaching(
    request,
    withRetries(request, async () => {
      const missing = await missingFrom(push, head.commit);
      const committed = missing.map(({ path }) => path);
      const result = { ...about, private: head.private, committed };
      if (missing.length === 0) return { ...result, commit: head.commit };
      try {
        return { ...result, commit: await commit(push, head.commit, missing) };
      } catch (error) {
        if (!(error instanceof ConnectionLost)) throw unusable(push, error);
        const now = await reaching(request, askHead(request));
        if (!('missing' in now) && now.commit !== head.commit) {
          head = now;
          const left = await missingFrom(push, head.commit);
          if (left.length === 0) return { ...result, commit: head.commit };
        }
        throw error;
      }
    }),
  );
}

/** The repository and branch of a push to `id`. @throws HUB for what cannot be pushed to */
export function pushTarget(id: string, branch: string): Repo {
  if (!looksLikeHubId(id) || id.includes('@')) {
    throw hubError(`${id} is not a name to push to; write it as org/name, and a branch with --branch.`);
  }
  if (isCommit(branch))
    throw hubError(`${branch} is a commit, which nothing can be pushed to; name a branch.`);
  return checkedRepo('model', id, branch);
}

function requestOf(id: string, { branch = 'main', signal }: PushOptions): HubRequest {
  const repo = pushTarget(id, branch);
  const settings = readHubSettings();
  if (settings.offline) throw hubError('HF_HUB_OFFLINE is set; unset it to push.');
  if (settings.token === null) {
    throw hubError(
      `Pushing needs a token that may write: create one on ${settings.endpoint}/settings/tokens, then set HF_TOKEN or run: hf auth login.`,
    );
  }
  return { settings, repo, signal };
}

/**
 * Makes the branch of a repository hold these files, in one commit and beside what else is there. Creates repository
 * and branch if need be. Files with the same bytes are not sent, and without others no commit is made.
 *
 * @param id `org/name`
 * @throws HUB with one sentence saying what is wrong and what to do; MISSING_PACKAGE; INTERRUPTED when the signal fires
 */
export async function pushFiles(
  id: string,
  files: readonly PushedFile[],
  options: PushOptions,
): Promise<Pushed> {
  const request = requestOf(id, options);
  const hub = await optionalPackage('acoer push', '@huggingface/hub', () => import('@huggingface/hub'));
  try {
    return await pushed({ hub, request, fetch: pushFetch(request, files), files, options });
  } catch (error) {
    if (options.signal?.aborted !== true || errorCode(error) === 'HUB') throw error;
    throw new AcoerError(
      'INTERRUPTED',
      `The push to ${repoText(request.repo)} was stopped; run the same command again: what the hub has of it is not sent again.`,
      { cause: error },
    );
  }
}
