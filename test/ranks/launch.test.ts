/** Which process of a run this is, by the variables of every launcher. */
import { ownAddress } from '../../src/ranks/address';
import { launchOf } from '../../src/ranks/launch';

const STORE = { MASTER_ADDR: 'node1', MASTER_PORT: '29500' };
const torch = (rank: number, size: number) => ({ RANK: String(rank), WORLD_SIZE: String(size), ...STORE });

test.each([
  ['nothing', {}],
  ['one process', { RANK: '0', WORLD_SIZE: '1' }],
  ['a size of one without a rank', { WORLD_SIZE: '1' }],
  ['empty variables', { RANK: '', WORLD_SIZE: '' }],
  ['a batch script of Slurm, in no step', { SLURM_PROCID: '0', SLURM_NTASKS: '4', SLURM_JOB_ID: '7' }],
  ['ranks that are turned off', { ...torch(1, 4), ACOER_RANKS: 'off' }],
])('%s: a process that trains alone', (_, env) => {
  expect(launchOf(env)).toBeNull();
});

test('torchrun', () => {
  const env = {
    ...torch(3, 4),
    LOCAL_RANK: '1',
    LOCAL_WORLD_SIZE: '2',
    TORCHELASTIC_RUN_ID: 'job',
    TORCHELASTIC_RESTART_COUNT: '2',
    TORCHELASTIC_USE_AGENT_STORE: 'True',
    OMP_NUM_THREADS: '1',
    // One torchrun per node of Slurm: the places of the nodes.
    SLURM_PROCID: '1',
    SLURM_STEP_ID: '0',
    SLURM_STEP_NUM_TASKS: '2',
  };
  expect(launchOf(env)).toEqual({
    ...{ rank: 3, size: 4, localRank: 1, localSize: 2, host: 'node1', port: 29500 },
    ...{ launcherServes: true, id: 'job', restarts: 2, run: null, token: '', address: null, interface: null },
    timeoutMs: 30_000,
  });
});

const SLURM = { SLURM_PROCID: '5', SLURM_STEP_NUM_TASKS: '8', SLURM_LOCALID: '1', SLURM_STEP_ID: '0' };

test('srun', () => {
  const env = { ...SLURM, ...STORE, SLURM_JOB_ID: '7', SLURM_STEP_TASKS_PER_NODE: '4(x2)' };
  expect(launchOf(env)).toMatchObject({ rank: 5, size: 8, localRank: 1, localSize: 4, id: '7.0' });
  expect(launchOf({ ...env, SLURM_CPUS_PER_TASK: '8' })).toMatchObject({ localSize: 1 });
});

test('Open MPI, and a job of PyTorch whose pods are ranks', () => {
  const mpi = {
    ...STORE,
    OMPI_COMM_WORLD_RANK: '1',
    OMPI_COMM_WORLD_SIZE: '2',
    OMPI_COMM_WORLD_LOCAL_RANK: '1',
    OMPI_COMM_WORLD_LOCAL_SIZE: '2',
  };
  expect(launchOf(mpi)).toMatchObject({ rank: 1, size: 2, localRank: 1, localSize: 2 });
  expect(launchOf({ ...torch(1, 2), ACOER_RANKS_TOKEN: 't', GLOO_SOCKET_IFNAME: 'eth0' })).toMatchObject({
    ...{ rank: 1, size: 2, localRank: 0, localSize: 1, launcherServes: false },
    ...{ token: 't', interface: 'eth0', id: 'run', restarts: 0 },
  });
});

test.each([
  [{ RANK: '1' }, /^RANK is set and WORLD_SIZE is not/],
  [{ WORLD_SIZE: '2' }, /^WORLD_SIZE is set and RANK is not/],
  [{ ...torch(4, 4) }, /^RANK is 4, but WORLD_SIZE is 4: ranks count from 0\.$/],
  [{ ...torch(0, 2), RANK: 'one' }, /^RANK must be a whole number from 0 to 1023, not "one"\.$/],
  [{ ...torch(0, 2), MASTER_PORT: '70000' }, /^MASTER_PORT must be a whole number/],
  [{ RANK: '0', WORLD_SIZE: '2' }, /but MASTER_ADDR and MASTER_PORT are not set/],
  [{ ...SLURM, MASTER_ADDR: 'a' }, /SLURM_STEP_NUM_TASKS\), but MASTER_PORT is not set/],
  [{ ...SLURM, SLURM_STEP_NUM_TASKS: '' }, /^SLURM_PROCID is set and SLURM_STEP_NUM_TASKS is not/],
  [{ ...torch(0, 2), ...SLURM }, /names two places .*RANK=0 of WORLD_SIZE=2 and SLURM_PROCID=5 of/],
  [{ ACOER_RANKS: 'no' }, /^ACOER_RANKS can be off, not "no"\.$/],
  [{ ...torch(0, 2), ACOER_RANKS_TIMEOUT: '1' }, /^ACOER_RANKS_TIMEOUT must be/],
])('%j is refused', (env, message) => {
  expect(() => launchOf(env)).toThrow(
    expect.objectContaining({ code: 'BAD_ARGUMENT', message: expect.stringMatching(message) }),
  );
});

test('the ranks of a torchrun that is alone reach each other on this machine only, whatever its name', async () => {
  const alone = { ...torch(0, 2), LOCAL_WORLD_SIZE: '2', TORCHELASTIC_USE_AGENT_STORE: 'True' };
  expect(await ownAddress(launchOf(alone)!)).toBe('127.0.0.1');
  const own = { ...alone, ACOER_RANKS_ADDRESS: '192.0.2.1' };
  expect(await ownAddress(launchOf(own)!)).toBe('192.0.2.1');
});
