/** `acoer fork`: continues a copy of a run from one of its checkpoints under other settings. */
import type { Command } from 'commander';
import { onlySettings, TRAIN_CALL, type TrainOptions, type TrainSettings } from '../train';
import { integer, path, repeatable, required } from './command';
import { addRanksOptions, inProcesses, type RanksFlags } from './nproc';
import { layersOf, type RunFlags } from './run-call';
import { runAndReport } from './train';

/** Options that are shortcuts for settings. */
const SETTINGS = ['reward', 'seed', 'maxSteps'] as const;

interface ForkFlags extends RunFlags, RanksFlags, Pick<TrainSettings, (typeof SETTINGS)[number]> {
  at?: number;
}

export function define(command: Command): void {
  const settings = command
    .argument('<run>', 'folder of the run')
    .option('--at <step>', 'step of the checkpoint to fork from (required)', integer(0))
    .addOption(repeatable('--set <path=value>', 'change a setting, e.g. --set reward=acc'))
    .option('--reward <name>', 'reward of the new run')
    .option('--seed <n>', 'seed of the new run', integer(0))
    .option('--max-steps <n>', 'total optimiser updates, including those before the fork', integer(1))
    .option('--trust', 'run the code that the run names (judge, rewards, sampler, sinks)')
    .option('--out <folder>', 'folder of the new run (default: runs/<date>-<name>)', path);
  addRanksOptions(settings, 'train')
    .option('--json', 'print the summary as JSON instead of a table')
    .action(async (run: string, flags: ForkFlags) => {
      const call = forkCall(run, flags);
      await inProcesses(flags, () => runAndReport(...call, flags.json === true));
    });
}

/** What `train` is called with for these flags. */
export function forkCall(run: string, flags: ForkFlags): [TrainSettings, TrainOptions] {
  const at = required(flags.at, '--at');
  const settings = Object.assign({}, ...layersOf(undefined, flags, SETTINGS)) as TrainSettings;
  return [
    onlySettings(TRAIN_CALL, settings),
    { fork: { run, at }, ...(flags.trust === true && { trust: true }), out: flags.out },
  ];
}
