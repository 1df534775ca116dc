/** Names on the hub: `org/name`, a revision, and their places in URLs and in the cache. */
import { hubError } from '../base/errors';

export type RepoType = 'model' | 'dataset';

export interface Repo {
  type: RepoType;
  /** `org/name`, or just a name for the oldest repositories. */
  id: string;
  /** A branch, a tag or a commit. */
  revision: string;
}

const PART = /^[A-Za-z0-9_](?:[\w.-]*[A-Za-z0-9_])?$/;
const REVISION = /^[\w.-]+(?:\/[\w.-]+)*$/;
const COMMIT = /^[0-9a-f]{40}$/;

export const isCommit = (revision: string): boolean => COMMIT.test(revision);

const isRepoId = (id: string): boolean => {
  const parts = id.split('/');
  return parts.length <= 2 && parts.every((part) => PART.test(part) && !/--|\.\./.test(part));
};

/** Whether `text` could be the hub id of a model: `org/name` with an optional `@revision`. */
export function looksLikeHubId(text: string): boolean {
  const { id } = splitRevision(text);
  return id.includes('/') && isRepoId(id);
}

/** Splits `org/name@revision`; the revision is undefined if absent. */
export function splitRevision(text: string): { id: string; revision?: string } {
  const at = text.indexOf('@');
  return at < 0 ? { id: text } : { id: text.slice(0, at), revision: text.slice(at + 1) };
}

/** Throws HUB for an invalid name, which could escape from the cache's folder. */
export function checkedRepo(type: RepoType, id: string, revision = 'main'): Repo {
  if (!isRepoId(id)) {
    throw hubError(`${id} is not a name on the Hugging Face hub; write it as org/name.`);
  }
  if (!REVISION.test(revision) || revision.split('/').some((part) => /^\.+$/.test(part))) {
    throw hubError(`${id}: "${revision}" cannot be a revision; put a branch, a tag or a commit after the @.`);
  }
  return { type, id, revision };
}

/** The name for messages, with the revision only if it is not the default. */
export const repoText = ({ type, id, revision }: Repo): string =>
  `${type} ${id}${revision === 'main' ? '' : `@${revision}`}`;

/** The page of the repository. */
export const repoPage = (endpoint: string, { type, id }: Repo): string =>
  `${endpoint}/${type === 'dataset' ? 'datasets/' : ''}${id}`;

/** Where one file of a commit is downloaded from. */
export function fileAddress(endpoint: string, repo: Repo, commit: string, path: string): string {
  const encoded = path.split('/').map(encodeURIComponent).join('/');
  return `${repoPage(endpoint, repo)}/resolve/${commit}/${encoded}`;
}
