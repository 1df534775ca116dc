/** The engine over the addon. */
import { availableParallelism } from 'node:os';
import { openWeights } from '../models';
import { needThreads } from '../base/threads';
import { loadAddon, type NativeEngine } from './binding';
import { Calls } from './calls';
import { callSite, engineError } from './errors';
import { kernelFaults } from './kernel-check';
import { NativeModel } from './model';
import { CALL_OPTIONS, LOAD_OPTIONS, needOptions, needPath, type OptionNames } from './options';
import type {
  CallOptions,
  DeviceInfo,
  DeviceName,
  Dtype,
  Engine,
  ExportingEngine,
  LoadOptions,
  MachineCeilings,
  MemoryReport,
  MergedMatrix,
  Model,
  TensorPlace,
  WeightSource,
} from './types';

export interface EngineOptions {
  /** `auto` (default): the first CUDA device if there is one, else the CPU. */
  device?: DeviceName;
  /** Threads for CPU operations; 0 (default) means as many as this process may use. */
  threads?: number;
  /**
   * Limit on the bytes of tensors (weights, adapter, KV cache, activations). A call that needs more rejects
   * with OUT_OF_MEMORY and changes nothing. On a CPU the limit is per engine; on a CUDA device it covers all
   * engines of the process, including memory that libtorch caches. Default: no limit.
   */
  memoryLimitBytes?: number;
}

const ENGINE_OPTIONS: OptionNames<EngineOptions> = { device: true, threads: true, memoryLimitBytes: true };

class AddonEngine implements ExportingEngine {
  private readonly calls: Calls;
  readonly deviceInfo: DeviceInfo;

  constructor(private readonly native: NativeEngine) {
    this.calls = new Calls(native);
    this.deviceInfo = { ...native.deviceInfo(), libtorch: loadAddon().buildInfo().libtorch };
  }

  async loadModel(directory: string, options: LoadOptions = {}): Promise<Model> {
    needPath(directory, "loadModel's directory");
    return this.load('loadModel', { model: directory, weights: null }, options);
  }

  loadWeights(source: Omit<WeightSource, 'adapter'>, options: LoadOptions = {}): Promise<Model> {
    return this.load('loadWeights', source, options);
  }

  private async load(
    call: string,
    source: Omit<WeightSource, 'adapter'>,
    given: LoadOptions,
  ): Promise<Model> {
    needOptions(given, call, LOAD_OPTIONS);
    const { dtype, quantization = null, ...options } = given;
    return this.calls.runWithFiles(
      () => openWeights({ ...source, adapter: null }),
      async (native, { spec, names, weights }, job) => {
        const type = dtype ?? spec.dtype;
        // Before the weights take the memory.
        const faults = await kernelFaults(native, this.deviceInfo, { spec, dtype: type, quantization });
        const info = await native.loadModel({ spec, weights, dtype: type, quantization, job });
        for (const { family, why } of faults) {
          await native.leaveOutKernels({ model: info.model, family, why });
        }
        return new NativeModel(this.calls, info, names);
      },
      options,
    );
  }

  async exportWeights(
    source: WeightSource,
    { path, places }: { path: string; places: readonly TensorPlace[] },
    options: CallOptions = {},
  ): Promise<MergedMatrix[]> {
    needOptions(options, 'exportWeights', CALL_OPTIONS);
    needPath(path, "exportWeights' path");
    return this.calls.runWithFiles(
      () => openWeights(source),
      (native, { weights, adapter }, job) =>
        native.exportWeights({
          weights,
          adapter: adapter?.table ?? null,
          matrices: adapter?.shape.matrices ?? [],
          rslora: adapter?.shape.rslora ?? false,
          path,
          tensors: places.map((place) => ({ ...place, file: 0 })),
          job,
        }),
      options,
    );
  }

  memory(): Promise<MemoryReport> {
    return this.calls.run((native) => native.memory());
  }

  async measureCeilings(dtype: Dtype, options: CallOptions = {}): Promise<MachineCeilings> {
    needOptions(options, 'measureCeilings', CALL_OPTIONS);
    return this.calls.run((native, job) => native.measureCeilings({ dtype, job }), options);
  }

  dispose(): Promise<void> {
    return this.native.dispose();
  }

  [Symbol.asyncDispose](): Promise<void> {
    return this.dispose();
  }
}

/** The engine's thread, and those of libtorch's backward pass and of Node around a call. */
const OWN_THREADS = 4;

/**
 * Starts an engine: one native thread on one device. Loads the addon on first use.
 * Throws LOAD_FAILED (not built), DEVICE (no such device) or BAD_ARGUMENT.
 */
export async function createExportingEngine(options: EngineOptions = {}): Promise<ExportingEngine> {
  needOptions(options, 'createEngine', ENGINE_OPTIONS);
  const { device = 'auto', threads = 0, memoryLimitBytes = 0 } = options;
  const site = callSite();
  try {
    const { Engine } = loadAddon();
    if (Number.isSafeInteger(threads))
      needThreads((threads || availableParallelism()) + OWN_THREADS, 'The engine');
    return new AddonEngine(new Engine({ device, threads, memoryLimitBytes }));
  } catch (error) {
    throw engineError(error, site);
  }
}

/** The same, for everyone who writes no weights. */
export const createEngine = (options: EngineOptions = {}): Promise<Engine> => createExportingEngine(options);
