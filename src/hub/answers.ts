/** Asks the hub for its JSON answers, bounded in size, number and time. */
import type { z } from 'zod';
import type { AcoerError } from '../base/errors';
import { hubError } from '../base/errors';
import { isRecord, shownJson } from '../base/json';
import { readText } from './body';
import { type Repo, repoText } from './names';
import { bodyText, notTheHub, Refusal } from './refusals';
import { requestOnce } from './request';
import { type HubRequest, withRetries } from './retry';
import { headInfo, type RemoteFile, repoInfo, treeFile, treePage } from './schemas';

/** The hub gives at most 1,000 entries a page and advises against more than 100,000 files in a repository. */
const MAX_PAGES = 1_000;
const MAX_FILES = 200_000;
const MAX_ANSWER_BYTES = 16 * 1024 * 1024;
/** Time limits of an answer and of all pages of a listing, in multiples of the time that a connection may be silent. */
const ANSWER_SILENCES = 6;
const LISTING_SILENCES = 60;

/** `"size" of "config.json" is "59"`: the first thing that is wrong with an answer. */
function firstProblem(error: z.ZodError, value: unknown): string {
  const path = error.issues[0]?.path ?? [];
  const at = path.reduce<unknown>((inner, key) => (inner as Record<PropertyKey, unknown>)?.[key], value);
  const name = path
    .map((key) => (typeof key === 'number' ? `entry ${key + 1}` : `"${String(key)}"`))
    .join(', ');
  const file = isRecord(value) && typeof value.path === 'string' ? ` of ${shownJson(value.path)}` : '';
  return `${name === '' ? 'the value' : name}${file} is ${at === undefined ? 'missing' : shownJson(at)}`;
}

interface Answer {
  response: Response;
  value: unknown;
}

/** The JSON in an answer, of a bounded size. @throws HUB for anything else */
export async function readAnswer(request: HubRequest, response: Response): Promise<Answer> {
  const limitMs = ANSWER_SILENCES * request.settings.silenceMs;
  const { text, whole } = await readText(response, request, MAX_ANSWER_BYTES, limitMs);
  if (!whole) throw notTheHub(request, response, `more than ${MAX_ANSWER_BYTES} bytes`);
  try {
    return { response, value: JSON.parse(text) as unknown };
  } catch (error) {
    if (error instanceof SyntaxError) throw notTheHub(request, response, bodyText(response, text));
    throw error;
  }
}

/** Asks for a JSON answer, at most `ATTEMPTS` times. */
function ask(request: HubRequest, url: string): Promise<Answer> {
  return withRetries(request, async () => {
    const response = await requestOnce(request, url, { accept: 'application/json' });
    return readAnswer(request, response);
  });
}

export function accepted<T>(
  request: HubRequest,
  { response }: Answer,
  schema: z.ZodType<T>,
  value: unknown,
): T {
  const result = schema.safeParse(value);
  if (result.success) return result.data;
  throw notTheHub(request, response, `JSON in which ${firstProblem(result.error, value)}`);
}

const apiAddress = (endpoint: string, { type, id }: Repo): string => `${endpoint}/api/${type}s/${id}`;

export interface Head {
  commit: string;
  /** null: the server does not say. */
  private: boolean | null;
}

/** The branch's newest commit, or what is not there or not shown to this token. */
export async function askHead(request: HubRequest): Promise<Head | { missing: 'repository' | 'branch' }> {
  const { settings, repo } = request;
  const url = `${apiAddress(settings.endpoint, repo)}/revision/${encodeURIComponent(repo.revision)}?expand=sha&expand=private`;
  try {
    const answer = await ask(request, url);
    const { sha, private: isPrivate = null } = accepted(request, answer, headInfo, answer.value);
    return { commit: sha, private: isPrivate };
  } catch (error) {
    if (!(error instanceof Refusal)) throw error;
    if (error.reason === 'RepoNotFound') return { missing: 'repository' };
    if (error.reason === 'RevisionNotFound') return { missing: 'branch' };
    throw error;
  }
}

/** The commit that the revision points to. */
export async function askCommit(request: HubRequest): Promise<string> {
  const { settings, repo } = request;
  const revision = encodeURIComponent(repo.revision);
  const answer = await ask(request, `${apiAddress(settings.endpoint, repo)}/revision/${revision}?expand=sha`);
  return accepted(request, answer, repoInfo, answer.value).sha;
}

/** The address of the next page in the header `Link`, or null after the last one. */
function nextPage(response: Response): string | null {
  return /<([^<>]+)>\s*;\s*rel="?next"?/.exec(response.headers.get('link') ?? '')?.[1] ?? null;
}

function badListing({ repo, settings }: HubRequest, why: string): AcoerError {
  return hubError(
    `The list of files of ${repoText(repo)} from ${settings.endpoint} ${why}; check that HF_ENDPOINT is a Hugging Face hub.`,
  );
}

/** The files of a listing, refused as soon as they contradict each other. */
class Listing {
  readonly files = new Map<string, RemoteFile>();
  private readonly folders = new Set<string>();

  constructor(private readonly request: HubRequest) {}

  add(file: RemoteFile): void {
    const { path } = file;
    if (this.files.has(path)) throw badListing(this.request, `has ${shownJson(path)} twice`);
    if (this.files.size >= MAX_FILES) throw badListing(this.request, `has more than ${MAX_FILES} files`);
    this.files.set(path, file);
    for (let slash = path.indexOf('/'); slash >= 0; slash = path.indexOf('/', slash + 1)) {
      this.folders.add(path.slice(0, slash));
    }
  }

  /** Once all are there. */
  finished(): RemoteFile[] {
    const clash = [...this.files.keys()].find((path) => this.folders.has(path));
    if (clash === undefined) return [...this.files.values()];
    throw badListing(this.request, `has ${shownJson(clash)} both as a file and as a folder`);
  }
}

/** The next page's address, which must be on the hub itself and new. */
function checkedNext(request: HubRequest, next: string, seen: ReadonlySet<string>): string {
  const { endpoint } = request.settings;
  const url = URL.canParse(next, endpoint) ? new URL(next, endpoint) : null;
  if (url?.origin !== new URL(endpoint).origin) throw badListing(request, 'goes on at another host');
  if (seen.has(url.href)) throw badListing(request, 'comes back to a page that was read already');
  if (seen.size >= MAX_PAGES) throw badListing(request, `does not end after ${MAX_PAGES} pages`);
  return url.href;
}

/** The files of a commit. */
export async function askFiles(request: HubRequest, commit: string): Promise<RemoteFile[]> {
  const { settings, repo } = request;
  const limitMs = LISTING_SILENCES * settings.silenceMs;
  const begun = performance.now();
  const listing = new Listing(request);
  const seen = new Set<string>();
  let url: string | null = new URL(
    `${apiAddress(settings.endpoint, repo)}/tree/${commit}?recursive=true&expand=false`,
  ).href;
  while (url !== null) {
    seen.add(url);
    const answer = await ask(request, url);
    for (const entry of accepted(request, answer, treePage, answer.value)) {
      if (entry.type === 'file') listing.add(accepted(request, answer, treeFile, entry));
    }
    const next = nextPage(answer.response);
    url = next === null ? null : checkedNext(request, next, seen);
    if (url !== null && performance.now() - begun > limitMs) {
      throw badListing(request, `takes longer than ${limitMs / 1000} s`);
    }
  }
  return listing.finished();
}
