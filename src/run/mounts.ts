/** Which file systems may keep locks to the machine that took them. */
import { realpathSync } from 'node:fs';
import { MAX_TEXT_BYTES, readTextSync } from '../base/regular-file';

interface Mount {
  point: string;
  type: string;
  options: string[];
}

/** proc(5): spaces and the like are octal escapes. */
const unescaped = (text: string): string =>
  text.replace(/\\([0-7]{3})/g, (_, octal: string) => String.fromCharCode(parseInt(octal, 8)));

/** `36 35 98:0 /root /point rw,noatime shared:1 - type source rw,options`: fields after the dash vary in place. */
function parseMount(line: string): Mount | null {
  const [before, after] = line.split(' - ');
  const point = before?.split(' ')[4];
  const [type, , options] = after?.split(' ') ?? [];
  if (point === undefined || type === undefined) return null;
  return { point: unescaped(point), type, options: options?.split(',') ?? [] };
}

const contains = (point: string, path: string): boolean =>
  path === point || path.startsWith(point.endsWith('/') ? point : `${point}/`);

/** The mount that holds an absolute path; of several at one place the last is on top. */
function mountOf(mountinfo: string, path: string): Mount | null {
  let found: Mount | null = null;
  for (const line of mountinfo.split('\n')) {
    const mount = parseMount(line);
    if (mount === null || !contains(mount.point, path)) continue;
    if (found === null || mount.point.length >= found.point.length) found = mount;
  }
  return found;
}

/** Whatever is mounted so may be shared with machines that do not see the locks taken on this one. */
const LOCAL_TYPES = /^(fuse(\..*)?|virtiofs|9p|beegfs|vboxsf|prl_fs)$/;
const LOCAL_OPTIONS = ['local_lock=all', 'local_lock=posix', 'nolock', 'localflock', 'nobrl'];

/**
 * Whether machines that share `path` may not see each other's locks: mounts whose locks are local by option
 * (NFS, Lustre, SMB), by default (BeeGFS), or whose server decides, which cannot be seen (FUSE, virtiofs, 9p).
 * @param mountinfo the text of /proc/self/mountinfo
 */
export function locksMayBeLocal(path: string, mountinfo?: string): boolean {
  let mount: Mount | null = null;
  try {
    mount = mountOf(mountinfo ?? readTextSync('/proc/self/mountinfo', MAX_TEXT_BYTES), realpathSync(path));
  } catch {
    // Without /proc nothing is known.
  }
  if (mount === null) return true;
  const { type, options } = mount;
  return LOCAL_TYPES.test(type) || options.some((option) => LOCAL_OPTIONS.includes(option));
}
