/** A plan as text. */
import { GPU_LAYER_LAUNCH_SECONDS, QUANTISED_PRODUCT_MOST_ROWS } from '../../plan/gpu-time';
import { gigabytes, grouped } from '../../base/text';
import {
  marginCaution,
  marginOf,
  marginWords,
  PHASES,
  shortage,
  STEP_PHASES,
  stepTotal,
  type Change,
  type Plan,
  type StepTime,
} from '../../plan';
import { formatTable } from '../table';
import { count } from './format';
import { maximum } from '../../base/statistics';

function seconds(value: number): string {
  return value >= 100 ? value.toFixed(0) : value.toPrecision(3);
}

function deviceLines({ device, ranks, model, promptTokens, lengths }: Plan): string[] {
  const rates =
    device.ceilings === null
      ? []
      : [
          `           ${(device.ceilings.readBytesPerSecond / 1e9).toPrecision(3)} GB/s, ${(device.ceilings.matmulFlopsPerSecond / 1e12).toPrecision(3)} TFLOP/s in ${model.dtype}: ${device.source}`,
        ];
  return [
    `model      ${(model.parameters / 1e6).toFixed(1)} M parameters in ${model.dtype}${model.quantization === null ? '' : `, linear layers in ${model.quantization}`}`,
    `device     ${ranks === 1 ? '' : `${ranks} ranks, each on `}${device.name}, ${gigabytes(device.freeBytes)} available of ${gigabytes(device.totalBytes)}`,
    ...rates,
    `lengths    prompts of ${grouped(promptTokens)} tokens; completions of ${grouped(Math.round(lengths.first))} tokens at the first step, ${grouped(Math.round(lengths.last))} at the last (means before the cap)`,
  ];
}

function memoryLines({ memory }: Plan): string[] {
  const rows = PHASES.flatMap((phase) =>
    memory.items
      .filter((item) => item.phase === phase)
      .map((item, i) => [i === 0 ? phase : '', item.name, gigabytes(item.bytes)]),
  );
  const width = maximum(rows.map((row) => row[1]!.length));
  const lines = rows.map(([phase, name, bytes]) =>
    `${phase!.padEnd(10)}  ${name!.padEnd(width)}  ${bytes!.padStart(9)}`.trimEnd(),
  );
  const last = `${'peak'.padEnd(10)}  ${`always + ${memory.peakPhase}`.padEnd(width)}  ${gigabytes(memory.peakBytes).padStart(9)}`;
  return [...lines, last];
}

function slotsLine({ memory: { kv }, model: { kvCacheDtype } }: Plan): string {
  if (kv === null) return 'sampling   on servers: its memory and its time are not counted here';
  return `slots      ${kv.slots} sequences decode together, with room for ${kv.fullSlots} of full length: ${gigabytes(kv.slotBytes)} each, KV cache ${kvCacheDtype === 'auto' ? '' : `in ${kvCacheDtype} `}limited to ${gigabytes(kv.budgetBytes)}`;
}

/** What the expected times rest on. */
function expectationLines({ device: { expected, ceilings }, model: { quantization } }: Plan): string[] {
  const share = (fraction: number): string => `${Math.round(100 * fraction)}%`;
  if (expected.by === 'fractions') {
    return [
      `Expected: decoding at ${share(expected.bandwidth)} of the bandwidth, the rest at ${share(expected.matmul)} of the matmul rate.`,
    ];
  }
  const { products, kernels, matmul, attention, cores } = expected.shares;
  const quantised =
    quantization === null
      ? []
      : [
          `${quantization}: up to ${QUANTISED_PRODUCT_MOST_ROWS} sequences straight from the codes, at ${share(cores)} of the instructions that ${(ceilings!.float32FlopsPerSecond! / 1e12).toPrecision(3)} TFLOP/s`,
          'in float32 start; with more, in prompts and in training, matrices are dequantised first.',
        ];
  return [
    "Expected: bytes and launches as counted for the engine's own CUDA kernels, decoding in CUDA graphs.",
    `Assumed, no card has confirmed it: products of decoding at ${share(products)} of the bandwidth, own kernels at`,
    `${share(kernels)}; in training products at ${share(matmul)} and attention at ${share(attention)} of the matmul rate; per layer and decode step`,
    `${(1e6 * GPU_LAYER_LAUNCH_SECONDS).toFixed(0)} us of launches.`,
    ...quantised,
  ];
}

function speculationLines({ speculation }: Plan): string[] {
  if (speculation === null) return [];
  const { rows, tokens } = speculation;
  return [
    `Assumed, as it was on SmolLM2: proposed tokens are right often enough for ${tokens.toFixed(2)} tokens a step from ${rows.toFixed(2)} rows of a sequence.`,
  ];
}

function timeLines(plan: Plan): string[] {
  const { time, device, ranks } = plan;
  if (time === null) return [];
  const columns: [string, StepTime, 'limit' | 'expected'][] = [
    ['first, limit', time.first, 'limit'],
    ['last, limit', time.last, 'limit'],
    ['mean, limit', time.mean, 'limit'],
    ['mean, expected', time.mean, 'expected'],
  ];
  const table = formatTable([
    ['seconds per step', ...columns.map(([name]) => name)],
    ...STEP_PHASES.map((name) => [name, ...columns.map(([, step, kind]) => seconds(step[kind][name]))]),
    ['step', ...columns.map(([, step, kind]) => seconds(stepTotal(step[kind])))],
  ]);
  const { evaluation, hours } = time;
  const evaluations =
    evaluation.count === 0
      ? 'no evaluation'
      : `${count(evaluation.count, 'evaluation')} of ${seconds(evaluation.limit)} s (limit) or ${seconds(evaluation.expected)} s (expected)`;
  const unit = device.kind === 'cuda' ? 'GPU-hours' : ranks === 1 ? 'hours' : 'hours of ranks';
  return [
    '',
    ...table.split('\n'),
    "Limit: what the device's rates allow.",
    ...expectationLines(plan),
    ...speculationLines(plan),
    `run        ${hours.limit.toPrecision(3)} ${unit} at the limit, ${hours.expected.toPrecision(3)} expected, with ${evaluations}`,
    ...(ranks === 1
      ? []
      : ['Times are those of the rank that samples longest; what ranks send each other is not counted.']),
    ...(device.kind === 'cuda'
      ? ['These GPU figures have not been measured; times and memory are predictions.']
      : []),
  ];
}

const changeLine = ({ setting, from, to, why }: Change): string =>
  `  --set ${setting}=${String(to)}   (now ${String(from)}) ${why}`;

function verdictLines(plan: Plan): string[] {
  const { fits, changes, memory, device } = plan;
  if (fits) {
    const margin = marginOf(memory, device);
    const caution = marginCaution(margin, device.kind);
    const more = changes !== null && changes.length > 0 ? ['Faster with:', ...changes.map(changeLine)] : [];
    const words = `It fits with ${gigabytes(margin.bytes)} to spare: ${gigabytes(memory.peakBytes)} of ${gigabytes(device.freeBytes)}.`;
    return [words, ...(caution === null ? [] : [caution]), ...more];
  }
  const head = `It does not fit, ${marginWords(marginOf(memory, device))}: ${shortage(plan)}.`;
  return changes === null
    ? [head, 'No setting makes it fit; use a smaller model or a larger device.']
    : [head, 'It fits with:', ...changes.map(changeLine)];
}

export function planReport(plan: Plan): string {
  const lines = [
    ...deviceLines(plan),
    '',
    ...memoryLines(plan),
    slotsLine(plan),
    ...timeLines(plan),
    '',
    ...verdictLines(plan),
  ];
  return lines.join('\n');
}
