/** The process started by `kernelFaults`: compares the kernels on a device and prints the figures as JSON. */
import { errorMessage } from '../base/errors';
import { leaveSignalsToParent } from '../base/signals';
import { loadAddon } from './binding';
import { type CheckedModel, NOT_COMPARED } from './kernel-check';

async function compare(device: string, model: CheckedModel): Promise<void> {
  leaveSignalsToParent();
  try {
    const engine = new (loadAddon().Engine)({ device, threads: 0 });
    const figures = await engine.checkKernels(model);
    process.stdout.write(JSON.stringify(figures));
  } catch (error) {
    process.stderr.write(errorMessage(error));
    process.exitCode = NOT_COMPARED;
  }
}

void compare(process.argv[2]!, JSON.parse(process.argv[3]!) as CheckedModel);
