/** The reward lab's report as tables. */
import { grouped, percent } from '../../base/text';
import {
  balanceOf,
  EPSILONS,
  holdOf,
  homogeneousOf,
  pathwayNames,
  SPREAD_FACTORS,
  type AnswerClass,
  type LabAnswer,
  type LabReport,
  type LengthWeight,
  type PairPoint,
  type RecordedSummary,
  type RewardReport,
} from '../../lab';
import { alignTable } from '../table';
import { count } from './format';
import { wrapWords } from './text';
import { maximum } from '../../base/statistics';

const CLASSES: readonly AnswerClass[] = ['incorrect', 'correct'];
const WIDTH = 110;

/** Three significant digits; very small numbers with an exponent. */
function short(value: number | null | undefined): string {
  if (value === null || value === undefined || Number.isNaN(value)) return '-';
  if (value === 0) return '0';
  if (!Number.isFinite(value)) return value > 0 ? 'inf' : '-inf';
  const size = Math.abs(value);
  if (size < 1e-3 || size >= 1e6) return value.toExponential(1);
  return size >= 1000 ? grouped(Math.round(value)) : Number(value.toPrecision(3)).toString();
}

const signed = (value: number | null | undefined): string =>
  typeof value === 'number' && value > 0 ? `+${short(value)}` : short(value);
const perThousand = (slope: number | null | undefined): string =>
  signed(typeof slope === 'number' ? 1000 * slope : slope);
const order = (value: number | null): string =>
  value === null ? '-' : (value + 0).toFixed(2).replace('-0.00', '0.00');

function titled(title: string, note: string | null, rows: readonly (readonly string[])[]): string[] {
  return [title, ...(note === null ? [] : wrapWords(note, WIDTH)), '', ...alignTable(rows), ''];
}

function header(report: LabReport): string[] {
  const { settings, groupSize, accuracy, correctCount, lengths, recorded } = report;
  const spread = (kind: AnswerClass) =>
    `${kind} ${short(lengths[kind].mean)}${lengths[kind].std === null ? '' : ` +- ${short(lengths[kind].std)}`}`;
  const from =
    recorded === null
      ? `Synthetic groups of ${groupSize}`
      : `${count(recorded.answers, 'recorded completion')} in ${count(recorded.groups, 'group')} of ${count(recorded.steps, 'step')}; groups of ${groupSize} like them`;
  const scaled = { group: 'std of the group', batch: 'std of the batch', none: '1' }[settings.scale];
  const divisor = settings.scale === 'none' ? '' : ` / (${scaled} + ${settings.epsilon})`;
  return [
    `${from}: accuracy ${short(accuracy)} (${correctCount} correct in the mixed one), L ${grouped(settings.maxLength)}.`,
    `Thinking tokens ${recorded === null ? 'drawn' : 'interpolated'}: ${spread('correct')}, ${spread('incorrect')}.`,
    `advantage = (reward - mean of the group)${divisor}`,
    '',
  ];
}

/** The shortest, a middle and the longest answer. */
function samples(answers: readonly LabAnswer[], correct: boolean): LabAnswer[] {
  const own = answers.filter((answer) => answer.correct === correct);
  const places = own.length < 3 ? own.keys() : [0, Math.floor(own.length / 2), own.length - 1];
  return [...places].map((place) => own[place]!);
}

function answerTable({ rewards }: LabReport): string[] {
  const shown = (report: RewardReport) => [
    ...samples(report.answers, true),
    ...samples(report.answers, false),
  ];
  const columns = shown(rewards[0]!);
  const head = ['', ...columns.map(({ correct }) => (correct ? 'correct' : 'incorrect'))];
  const lengths = [
    'thinking tokens',
    ...columns.map(({ thinkingTokens }) => grouped(Math.round(thinkingTokens))),
  ];
  const cell = ({ reward, advantage }: LabAnswer) =>
    `${reward.toFixed(3)} ${advantage < 0 ? '' : '+'}${advantage.toFixed(2)}`;
  const rows = rewards.map((report) => [report.name, ...shown(report).map(cell)]);
  return titled('REWARD AND ADVANTAGE of answers in a mixed group, format included', null, [
    head,
    lengths,
    ...rows,
  ]);
}

const factorName = (factor: number) => (factor === 1 ? 'spread x1' : `1/${1 / factor}`);

function pressureRow(report: RewardReport, kind: AnswerClass): string[] {
  const { mixed } = report.sweeps;
  const alone = report.sweeps[homogeneousOf(kind)];
  const approximate = kind === 'incorrect' ? report.mixedPressure?.approximate : undefined;
  return [
    report.name,
    kind,
    perThousand(mixed.points[0]![kind]?.advantageSlope),
    perThousand(approximate),
    order(mixed.order[kind]),
    ...alone.points.map((point) => perThousand(point[kind]?.advantageSlope)),
    order(alone.order[kind]),
  ];
}

function pressureTable({ rewards }: LabReport): string[] {
  const head = ['', 'answers', 'mixed', 'dr/dl / C', 'order', ...SPREAD_FACTORS.map(factorName), 'order'];
  const pressed = (report: RewardReport, kind: AnswerClass) => report.signals[kind].active;
  const rows = rewards.flatMap((report) =>
    CLASSES.filter((kind) => pressed(report, kind)).map((kind) => pressureRow(report, kind)),
  );
  const rest = rewards.flatMap((report) => {
    const flat = CLASSES.filter((kind) => !pressed(report, kind));
    if (flat.length === 0) return [];
    return [flat.length === 2 ? report.name : `${report.name} (${flat[0]!})`];
  });
  return [
    ...titled(
      'PRESSURE ON LENGTH: d(advantage)/d(own length) per 1,000 tokens, mean over the answers',
      'mixed: in the mixed group; dr/dl / C: its approximation in section 4.2, C = sqrt(p(1-p)). spread: in a group of that class alone, as its lengths move towards their mean. order k: without epsilon it grows as 1/spread^k (Proposition 1: 1; constant: 0).',
      [head, ...rows],
    ),
    ...(rest.length > 0 ? [...wrapWords(`No slope at these lengths: ${rest.join(', ')}.`, WIDTH), ''] : []),
  ];
}

/** Every second distance and the last one. */
const shownPairs = (points: readonly PairPoint[]): PairPoint[] =>
  points.filter((_, i) => i % 2 === 0 || i === points.length - 1);

function pairRow(report: RewardReport, kind: AnswerClass): string[] {
  const points = shownPairs(report.pairs[kind]);
  const last = points.at(-1)!;
  return [
    report.name,
    kind,
    ...points.map(({ advantage }) => advantage.toFixed(3)),
    ...points.map(({ slope }) => signed(slope)),
    last.advantageNoEpsilon.toFixed(3),
    signed(last.slopeNoEpsilon),
  ];
}

function pairTable({ rewards }: LabReport): string[] {
  const distances = shownPairs(rewards[0]!.pairs.correct).map(({ difference }) => difference);
  const head = [
    '',
    'answers',
    ...distances.map((difference, i) => (i === 0 ? `|A| at ${difference}` : `at ${difference}`)),
    ...distances.map((difference, i) => (i === 0 ? `A/token at ${difference}` : `at ${difference}`)),
    'no eps: |A|',
    'A/token',
  ];
  const rows = rewards.flatMap((report) =>
    CLASSES.filter((kind) => report.pairs[kind].some(({ advantage }) => advantage > 0)).map((kind) =>
      pairRow(report, kind),
    ),
  );
  return titled(
    'PROPOSITION 1: two answers of one class (G = 2), at various distances in tokens',
    '|A| is bounded: by 1 with the population std of the proposition, by 0.707 with the sample std that GRPO uses. What diverges is the advantage per token between the two. no eps: at 1 token, without epsilon. Rewards that treat both alike are left out.',
    [head, ...rows],
  );
}

const weightName = ({ alpha, factor }: LengthWeight): string =>
  alpha === null ? `x${short(factor)}` : `alpha ${short(alpha)}`;

/** Rounding may leave a negative zero; it is shown as 0%. */
const holdText = (hold: number): string => percent(hold, 0).replace('-0%', '0%');

function weightTable({ rewards, settings }: LabReport): string[] {
  const { scale } = settings;
  if (scale === 'none') return [];
  const epsilons = [...new Set([...EPSILONS, settings.epsilon])].sort((a, b) => a - b);
  const head = ['', 'weight', 's', 'S', 'mixed', ...epsilons.map((epsilon) => `eps ${epsilon}`)];
  const rows = rewards.flatMap(({ name, lengthWeights }) =>
    lengthWeights.map((weight) => [
      name,
      weightName(weight),
      weight.allCorrect.std.toFixed(4),
      weight.mixed.std.toFixed(3),
      holdText(holdOf(weight.mixed, settings)),
      ...epsilons.map((epsilon) => {
        const at = { scale, epsilon };
        return `${holdText(holdOf(weight.allCorrect, at))} ${balanceOf(weight, at).toFixed(2)}`;
      }),
    ]),
  );
  if (rows.length === 0) return [];
  return titled(
    'WHAT IS LEFT OF THE LENGTH WEIGHT after dividing by std + epsilon',
    `s: std of the rewards in a group of correct answers alone, S: in the mixed group. hold: the fraction of a small relative change of the weight (alpha; x1: of everything length earns) that reaches the pressure on length. mixed: hold in the mixed group at epsilon ${settings.epsilon}. Then for each epsilon, for correct answers alone: hold = eps/(s + eps), and how strongly such a group presses compared with the mixed one, s/(s + eps) : S/(S + eps).`,
    [head, ...rows],
  );
}

const sharesRow = ({ mixed, allIncorrect, allCorrect }: RecordedSummary['shares']): string[] => {
  const [first, second, last] = [mixed, allIncorrect, allCorrect].map((share) => percent(share, 2));
  return ['recorded', first!, second!, '', last!, ''];
};

function compositionTable({ compositions, groupSize, recorded }: LabReport): string[] {
  const chance = (value: number) => (value >= 1e-4 ? percent(value, 2) : short(value));
  const rows = compositions.map((row) => [
    short(row.accuracy),
    chance(row.mixed),
    chance(row.allIncorrect),
    chance(row.mostlyIncorrect),
    chance(row.allCorrect),
    row.C.toFixed(3),
  ]);
  const found = recorded === null ? [] : [sharesRow(recorded.shares)];
  return titled(
    `GROUP COMPOSITION (appendix F): probabilities for groups of ${groupSize}, and C, the std of 0/1 rewards`,
    null,
    [['accuracy', 'mixed', 'all incorrect', 'mostly incorrect', 'all correct', 'C'], ...rows, ...found],
  );
}

function recordedTable({ rewards, recorded }: LabReport): string[] {
  if (recorded === null) return [];
  const head = ['', 'answers', 'reward', 'advantage', 'dA/dl mixed', 'dA/dl alone', 'groups of one reward'];
  const rows = rewards.flatMap(({ name, recorded: own }) =>
    CLASSES.map((kind) => [
      name,
      kind,
      own!.reward[kind]?.toFixed(3) ?? '-',
      own!.advantage[kind]?.toFixed(3) ?? '-',
      perThousand(own!.advantageSlope.mixed[kind]),
      perThousand(own!.advantageSlope[homogeneousOf(kind)][kind]),
      percent(own!.fracZeroStd),
    ]),
  );
  return titled('THE RECORDED GROUPS: means; dA/dl per 1,000 tokens', null, [head, ...rows]);
}

function predictionLines({ rewards }: LabReport): string[] {
  const names = maximum(rewards.map(({ name }) => name.length));
  const lines = rewards.flatMap(({ name, prediction }) => {
    const start = `${name.padEnd(names)}  ${pathwayNames(prediction, ', guarded').padEnd(12)}  `;
    const reason = wrapWords(prediction.reason, WIDTH - start.length);
    return reason.map((line, i) => (i === 0 ? start : ' '.repeat(start.length)) + line);
  });
  const note =
    'Pathway 1: incorrect answers have a length slope. Pathway 2: correct answers have one. Guarded: the pressure on correct answers decreases when accuracy falls.';
  return ['PREDICTED COLLAPSE PATHWAYS (section 4.2)', ...wrapWords(note, WIDTH), '', ...lines];
}

/** The whole report as text. */
export function labLines(report: LabReport): string[] {
  return [
    ...header(report),
    ...recordedTable(report),
    ...answerTable(report),
    ...compositionTable(report),
    ...pressureTable(report),
    ...weightTable(report),
    ...pairTable(report),
    ...predictionLines(report),
  ];
}
