/** The doctor's report as text. */
import { formatBytes } from './log.mjs';

/** @param {import('./tools.mjs').ToolReport} tool */
function toolLine(tool) {
  return tool.path ? `${tool.version ?? 'unknown version'} (${tool.path})` : 'missing';
}

/** @param {import('./probe.mjs').DeviceFacts} device */
function deviceLine({ device, info, error }) {
  if (error) return `${device}: ${error}`;
  const { name, totalBytes, freeBytes, threads } = /** @type {Record<string, any>} */ (info);
  const memory = totalBytes ? `, ${formatBytes(freeBytes)} free of ${formatBytes(totalBytes)}` : '';
  return `${device}: ${name}${memory}${device === 'cpu' ? `, ${threads} threads` : ''}`;
}

/** @param {import('./doctor.mjs').Gpu} gpu @returns {[string, string][]} */
function gpuRows({ name, memoryBytes, computeCapability, kernels }) {
  const capability = computeCapability === null ? '' : `, compute capability ${computeCapability}`;
  const card = /** @type {[string, string]} */ (['gpu', `${name}, ${formatBytes(memoryBytes)}${capability}`]);
  return kernels === null ? [card] : [card, ['kernels', kernels]];
}

/** @param {import('./doctor.mjs').Report['addon']} addon */
function addonLine({ state, prebuilt, build }) {
  if (build === null) return state;
  const cuda = build.cuda ? `, CUDA ${build.cuda}` : '';
  return `${state}, ${prebuilt === null ? 'built here' : `from ${prebuilt}`} for libtorch ${build.libtorch}${cuda}`;
}

/** @param {import('./doctor.mjs').Report} report @returns {[string, string][]} */
function rows(report) {
  const { libtorch, cpu, memory, nvidia, addon, cache } = report;
  const found = libtorch.found;
  /** @type {[string, string][]} */
  const lines = [
    ['acoer', `${report.acoer}, Node ${report.node}, ${report.platform}, glibc ${report.glibc ?? 'none'}`],
    ['processor', `${cpu.name}, ${cpu.cores} cores, ${cpu.instructions.join(' ') || 'no AVX2'}`],
    ['memory', `${formatBytes(memory.availableBytes)} available of ${formatBytes(memory.totalBytes)}`],
    ['nvidia', nvidia.driver ? `driver ${nvidia.driver}` : 'no driver'],
    ...nvidia.gpus.flatMap((gpu) => gpuRows(gpu)),
    ...report.kernelChecks.map(({ text }) => /** @type {[string, string]} */ (['self-check', text])),
    ['nvcc', nvidia.nvcc ?? 'none (without the CUDA toolkit memoryLimitBytes does not work on a GPU)'],
    ...report.tools.map((tool) => /** @type {[string, string]} */ ([tool.name, toolLine(tool)])),
    ['flavour', `${libtorch.wanted} (${libtorch.why})`],
    [
      'libtorch',
      found ? `${found.version} ${found.flavour} from ${found.source}: ${found.root}` : 'none yet',
    ],
    [
      'cache',
      `${cache.folder}: ${cache.libtorch.join(', ') || 'empty'}; ${formatBytes(cache.freeBytes)} free`,
    ],
    ['addon', addonLine(addon)],
    ['CUDA object', nvidia.cudaObject ? 'built' : 'not built (needed only for memoryLimitBytes on a GPU)'],
    ...addon.devices.map((device) => /** @type {[string, string]} */ (['device', deviceLine(device)])),
  ];
  return lines;
}

/** @param {import('./doctor.mjs').Report} report */
export function reportText(report) {
  const table = rows(report).map(([name, text]) => `${name.padEnd(12)} ${text}`);
  const notes = report.notes.map((note) => `note: ${note}`);
  const problems = report.problems.map((problem) => `problem: ${problem}`);
  const verdict = report.problems.length === 0 ? 'everything that acoer needs is present' : '';
  return [...table, '', ...notes, ...problems, verdict]
    .filter((line, i, all) => line !== '' || i < all.length - 1)
    .join('\n');
}
