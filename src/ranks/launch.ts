/** Which process of a run this is, as its launcher says by environment variables (docs/ranks.md). */
import { AcoerError } from '../base/errors';

/** A process of a run of several. */
export interface Launch {
  /** From 0. */
  rank: number;
  size: number;
  /** Number among the processes of this machine: its GPU. */
  localRank: number;
  /** Processes that share the cores this one sees. */
  localSize: number;
  /** Where the store is. */
  host: string;
  port: number;
  /** The launcher serves the store itself, so rank 0 does not. */
  launcherServes: boolean;
  /** Tells this start of the run from others that use the same store. */
  id: string;
  /** How often the launcher has started the processes again. */
  restarts: number;
  /** The run to go on with, where the launcher knows it: `--nproc` does, when it starts its ranks again. */
  run: string | null;
  /** Known to every process of the run, and to nobody else; empty: not given. */
  token: string;
  /** The numeric address that the others reach this process at; null: that of the way to the store. */
  address: string | null;
  /** The interface that has it. */
  interface: string | null;
  /** A process that is not heard for longer is lost. */
  timeoutMs: number;
}

type Env = Readonly<Record<string, string | undefined>>;

/** The variables of a launcher, by what they mean. */
interface Names {
  rank: string;
  size: string;
  localRank: string;
  localSize: string | null;
}

const TORCH: Names = {
  rank: 'RANK',
  size: 'WORLD_SIZE',
  localRank: 'LOCAL_RANK',
  localSize: 'LOCAL_WORLD_SIZE',
};
/** Those of a step: a batch script that calls no srun has SLURM_PROCID, too. */
const SLURM: Names = {
  rank: 'SLURM_PROCID',
  size: 'SLURM_STEP_NUM_TASKS',
  localRank: 'SLURM_LOCALID',
  localSize: null,
};
const OPEN_MPI: Names = {
  rank: 'OMPI_COMM_WORLD_RANK',
  size: 'OMPI_COMM_WORLD_SIZE',
  localRank: 'OMPI_COMM_WORLD_LOCAL_RANK',
  localSize: 'OMPI_COMM_WORLD_LOCAL_SIZE',
};

export const NO_RANKS = 'to train alone in each process: ACOER_RANKS=off';

const refused = (message: string): AcoerError => new AcoerError('BAD_ARGUMENT', message);

/** By convention an empty variable is none. */
const given = (env: Env, name: string): string | null => env[name] || null;

function whole(env: Env, name: string, least: number, most: number): number | null {
  const text = given(env, name);
  if (text === null) return null;
  const value = /^\d{1,9}$/.test(text) ? Number(text) : NaN;
  if (value >= least && value <= most) return value;
  throw refused(`${name} must be a whole number from ${least} to ${most}, not ${JSON.stringify(text)}.`);
}

const MOST_RANKS = 1024;
const TIMEOUT_S = 30;

interface Place {
  names: Names;
  rank: number;
  size: number;
}

/** @throws BAD_ARGUMENT for one of the two without the other */
function placeBy(env: Env, names: Names): Place | null {
  const rank = whole(env, names.rank, 0, MOST_RANKS - 1);
  const size = whole(env, names.size, 1, MOST_RANKS);
  if (rank === null && (size === null || size === 1)) return null;
  if (rank === null || size === null) {
    const [there, missing] = rank === null ? [names.size, names.rank] : [names.rank, names.size];
    throw refused(
      `${there} is set and ${missing} is not, so this process cannot know its place in the run: set both, or neither.`,
    );
  }
  if (rank >= size)
    throw refused(`${names.rank} is ${rank}, but ${names.size} is ${size}: ranks count from 0.`);
  return { names, rank, size };
}

/** Under torchrun, which others often start once per machine, theirs are places of machines. */
function placeOf(env: Env): Place | null {
  const torch = placeBy(env, TORCH);
  if (torch !== null && given(env, 'TORCHELASTIC_RUN_ID') !== null) return torch;
  const inStep = given(env, 'SLURM_STEP_ID') !== null;
  const others = [inStep ? placeBy(env, SLURM) : null, placeBy(env, OPEN_MPI)];
  // The only task of a step says nothing of the processes that it starts.
  const places = [torch, ...others.filter((place) => place?.size !== 1)].filter((place) => place !== null);
  const [first] = places;
  if (first === undefined) return null;
  const other = places.find(({ rank, size }) => rank !== first.rank || size !== first.size);
  if (other === undefined) return first;
  const shown = ({ names, rank, size }: Place) => `${names.rank}=${rank} of ${names.size}=${size}`;
  throw refused(
    `The environment names two places for this process, ${shown(first)} and ${shown(other)}: unset one of them.`,
  );
}

/** @throws BAD_ARGUMENT */
function storeOf(env: Env, { names, rank, size }: Place): { host: string; port: number } {
  const host = given(env, 'MASTER_ADDR');
  const port = whole(env, 'MASTER_PORT', 1, 65_535);
  if (host !== null && port !== null) return { host, port };
  const missing = [...(host === null ? ['MASTER_ADDR'] : []), ...(port === null ? ['MASTER_PORT'] : [])];
  throw refused(
    `This is rank ${rank} of ${size} (${names.rank}, ${names.size}), but ${missing.join(' and ')} ${missing.length > 1 ? 'are' : 'is'} not set: the address of rank 0's machine and a free port there; ${NO_RANKS}.`,
  );
}

/** Where cores are bound to tasks a process sees its own only. */
function localSizeOf(env: Env, { names }: Place): number {
  const own = names.localSize === null ? null : whole(env, names.localSize, 1, MOST_RANKS);
  if (own !== null) return own;
  if (names !== SLURM || given(env, 'SLURM_CPUS_PER_TASK') !== null) return 1;
  // As in "4(x2),3": tasks on each node, in order.
  const counts = /^(\d{1,4})/.exec(given(env, 'SLURM_STEP_TASKS_PER_NODE') ?? '');
  return Math.max(1, Number(counts?.[1] ?? 1));
}

function idOf(env: Env): string {
  const slurm = given(env, 'SLURM_JOB_ID');
  return (
    given(env, 'TORCHELASTIC_RUN_ID') ??
    (slurm === null ? 'run' : `${slurm}.${given(env, 'SLURM_STEP_ID') ?? 'batch'}`)
  );
}

/**
 * @returns null: this process trains alone
 * @throws BAD_ARGUMENT naming the variables that are incomplete, or contradict each other
 */
export function launchOf(env: Env): Launch | null {
  const wanted = given(env, 'ACOER_RANKS');
  if (wanted !== null && wanted !== 'off')
    throw refused(`ACOER_RANKS can be off, not ${JSON.stringify(wanted)}.`);
  if (wanted === 'off') return null;
  const place = placeOf(env);
  if (place === null || place.size === 1) return null;
  const { rank, size, names } = place;
  const most = MOST_RANKS - 1;
  const restarts =
    whole(env, 'TORCHELASTIC_RESTART_COUNT', 0, 999_999) ?? whole(env, 'SLURM_RESTART_COUNT', 0, 999_999);
  return {
    rank,
    size,
    localRank: whole(env, names.localRank, 0, most) ?? 0,
    localSize: localSizeOf(env, place),
    ...storeOf(env, place),
    launcherServes: given(env, 'TORCHELASTIC_USE_AGENT_STORE') === 'True',
    id: idOf(env),
    restarts: restarts ?? 0,
    run: given(env, 'ACOER_RANKS_RUN'),
    token: given(env, 'ACOER_RANKS_TOKEN') ?? '',
    address: given(env, 'ACOER_RANKS_ADDRESS'),
    interface: given(env, 'GLOO_SOCKET_IFNAME'),
    timeoutMs: 1000 * (whole(env, 'ACOER_RANKS_TIMEOUT', 5, 86_400) ?? TIMEOUT_S),
  };
}
