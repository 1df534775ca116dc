/**
 * Which of the user's modules may run. A run's folder names code (judge, rewards, sampler, sinks), and servers to send
 * prompts to, and may come from somebody else, so a file that only it names is loaded if the user named that very file, in that very place, on
 * this machine before. What was named is kept in the user's state folder and never read from a run.
 */
import { realpathSync } from 'node:fs';
import { homedir } from 'node:os';
import { isAbsolute, join, resolve } from 'node:path';
import { isNamedSink } from '../../config';
import { type AcoerError, badInput, badUsage, whyUnreadable, whyUnwritten } from '../../base/errors';
import { isRecord } from '../../base/json';
import { readRegularFileSync } from '../../base/regular-file';
import { sha256 } from '../../base/sha256';
import { temporaryName, writeFileAtomic } from '../../run';
import { moduleFingerprints, type UserModule } from './user-modules';

const MAX_RECORD_BYTES = 1 << 16;

/** @throws where there is no home folder */
function namedFolder({ XDG_STATE_HOME: state }: NodeJS.ProcessEnv = process.env): string {
  // The specification of this variable says to ignore a relative path.
  const base = state !== undefined && isAbsolute(state) ? state : join(homedir(), '.local', 'state');
  return join(base, 'acoer', 'named-modules');
}

interface Placed {
  /** Without symbolic links. */
  path: string;
  /** Over the file and all that it imports by relative paths. */
  sha256: string;
}

async function placed(module: UserModule): Promise<Placed> {
  // Of our own code only the name counts: it has no place, and a new version of it is no other choice.
  if (module.kind === 'sink' && isNamedSink(module.path)) return { path: module.path, sha256: '' };
  if (module.kind === 'server') return { path: module.path, sha256: '' };
  const real = realpathSync(module.path);
  const own = await moduleFingerprints([{ ...module, name: '', path: real }]);
  const files = Object.entries(own).sort(([a], [b]) => (a < b ? -1 : 1));
  return { path: real, sha256: sha256(JSON.stringify(files)) };
}

/** One file for each place, so that two processes at once cannot lose each other's. */
const recordOf = ({ path }: Placed): string => join(namedFolder(), sha256(path));

/** `changed`: the file in this place was named with another content. */
function standing(module: Placed): 'named' | 'changed' | 'unknown' {
  try {
    const record: unknown = JSON.parse(readRegularFileSync(recordOf(module), MAX_RECORD_BYTES).toString());
    if (!isRecord(record) || record.path !== module.path) return 'unknown';
    return record.sha256 === module.sha256 ? 'named' : 'changed';
  } catch {
    // What cannot be read names nothing.
    return 'unknown';
  }
}

function record(module: Placed, warn: (message: string) => void): void {
  if (standing(module) === 'named') return;
  try {
    const file = recordOf(module);
    const text = `${JSON.stringify({ ...module, named: new Date().toISOString() })}\n`;
    writeFileAtomic(file, text, temporaryName(file), 0o600);
  } catch (error) {
    warn(
      `It cannot be kept that you named ${module.path} (${whyUnwritten(error)}), so going on with a run that uses it will need --trust; nothing else changes.`,
    );
  }
}

/** Notes that the user has named these files; one that cannot be read is left to what loads it. */
export async function rememberModules(
  modules: readonly UserModule[],
  warn: (message: string) => void,
): Promise<void> {
  for (const module of modules) {
    const found = await placed(module).catch(() => null);
    if (found !== null) record(found, warn);
  }
}

const listed = (modules: readonly UserModule[]): string =>
  modules
    .map(({ kind, name, path }) => ['the', kind, ...(name === undefined ? [] : [name]), path].join(' '))
    .join(' and ');

/** What the user says about the modules of a run. */
export interface Trust {
  /** Files that the user names now. */
  named: readonly string[];
  /** Trusts all that the run names. */
  trust: boolean;
  /** Rewards named before, in the same place, may have changed since. */
  changedRewards?: boolean;
  /** Called before a file is refused that was named before, in the same place: to say what has changed. */
  compare?: () => Promise<void>;
}

function refusal(run: string, modules: readonly UserModule[]): AcoerError {
  const what = modules.some(({ kind }) => kind !== 'server')
    ? 'code that would run with your rights and that, as it is now, you have not named on this machine: read it'
    : 'to which the prompts of the run would be sent and which you have not named on this machine: make sure that you mean it';
  return badInput(`${run} names ${listed(modules)}, ${what}, then give --trust (in a program: trust: true).`);
}

/**
 * Checks the modules that a run's folder names, and notes those that the user names or trusts now.
 * @param run its folder
 * @throws BAD_INPUT naming the files that nobody named on this machine; BAD_CONFIG for one that cannot be read
 */
export async function admitModules(
  run: string,
  modules: readonly UserModule[],
  { named, trust, changedRewards = false, compare }: Trust,
  warn: (message: string) => void,
): Promise<void> {
  const own = new Set(named.map((path) => resolve(path)));
  const unknown: UserModule[] = [];
  const changed: UserModule[] = [];
  const admitted: UserModule[] = [];
  for (const module of modules) {
    if (trust || own.has(resolve(module.path))) {
      admitted.push(module);
      continue;
    }
    const found = await placed(module).catch((cause: unknown) => {
      const why = `Cannot use ${listed([module])}, which ${run} names: ${whyUnreadable(cause)}`;
      throw badUsage(why, cause);
    });
    const known = standing(found);
    if (known === 'unknown') unknown.push(module);
    else if (known === 'changed')
      (changedRewards && module.kind === 'reward' ? admitted : changed).push(module);
  }
  if (unknown.length > 0) throw refusal(run, [...unknown, ...changed]);
  await compare?.();
  if (changed.length > 0) throw refusal(run, changed);
  await rememberModules(admitted, warn);
}
