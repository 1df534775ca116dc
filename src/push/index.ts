/** `acoer push`: what a run trained, in a repository on the hub. */
import { pushFiles, type Pushed } from '../hub';
import { checkBeside, type ContentOptions, type PushContent } from './content';

export { pushContent, type ContentOptions, type PushContent } from './content';

export interface PushRunOptions {
  visibility?: 'private' | 'public';
  /** The commit's title; by default it says what is pushed. */
  message?: string;
  onPhase?: (phase: string) => void;
}

/** @throws what `pushFiles` and `checkBeside` throw */
export function pushContentTo(
  content: PushContent,
  { id, branch, signal }: Pick<ContentOptions, 'id' | 'branch' | 'signal'>,
  { message, ...options }: PushRunOptions,
): Promise<Pushed> {
  return pushFiles(id, content.files, {
    ...options,
    branch,
    ...(signal !== undefined && { signal }),
    message: message ?? content.message,
    checkTree: (paths) => checkBeside(content.kind, id, paths),
  });
}
