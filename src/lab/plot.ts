/**
 * The lab's report as an SVG picture: for each class of answers, advantage by length and pressure by spread;
 * and how much of the length weight is left by epsilon.
 */
import { needList, needObject } from '../border';
import { balanceOf, holdOf } from './length-weight';
import { homogeneousOf } from './prediction';
import { heightOf, legend, MARGIN, panelSvg, svgDocument, type Line, type Panel } from './svg';
import { CLASSES } from './rollouts';
import type { AnswerClass, LabReport, LengthWeight, RewardReport } from './types';
import { maximum, minimum } from '../statistics';

const advantageLine = (report: RewardReport, kind: AnswerClass, index: number): Line => ({
  index,
  points: report.curves[kind].length.map((length, i) => [length, report.curves[kind].advantage[i]!]),
});

function pressureLine(report: RewardReport, kind: AnswerClass, index: number): Line {
  const points = report.sweeps[homogeneousOf(kind)].points.flatMap((point): [number, number][] => {
    const [spread, slope] = [point.lengthStd[kind] ?? 0, 1000 * Math.abs(point[kind]?.advantageSlope ?? 0)];
    // Zeros have no place on a logarithmic axis.
    return spread > 0 && slope > 0 && slope < Infinity ? [[spread, slope]] : [];
  });
  return { index, points };
}

function panelsOf({ rewards }: LabReport, kind: AnswerClass): [Panel, Panel] {
  const pressure = rewards.map((report, index) => pressureLine(report, kind, index));
  const flat = rewards.filter((_, index) => pressure[index]!.points.length === 0).map(({ name }) => name);
  const flatNote = flat.length > 6 ? `${flat.length} rewards` : flat.join(', ');
  return [
    {
      title: `One ${kind} answer in a mixed group`,
      x: { label: 'its thinking tokens', scale: 'linear' },
      y: { label: 'advantage', scale: 'linear' },
      lines: rewards.map((report, index) => advantageLine(report, kind, index)),
      count: rewards.length,
      note: '',
    },
    {
      title: `Groups of ${kind} answers alone`,
      x: { label: 'standard deviation of their lengths (tokens), narrowing', scale: 'log', reversed: true },
      y: { label: '|d advantage / d length| per 1,000 tokens', scale: 'log' },
      lines: pressure.filter(({ points }) => points.length > 0),
      count: rewards.length,
      note: flat.length === 0 ? '' : `no slope: ${flatNote}`,
    },
  ];
}

/** From TRL's 1e-4 to 1. */
const EPSILON_AXIS = Array.from({ length: 41 }, (_, i) => 10 ** (i / 10 - 4));

type OfEpsilon = (weight: LengthWeight, scaling: { scale: 'group'; epsilon: number }) => number;

/**
 * Panels by epsilon; none where advantages are not divided by their own group's std, or length does not
 * affect correct answers.
 */
function epsilonPanels({ rewards, settings }: LabReport): Panel[] {
  const weights = rewards.flatMap(({ lengthWeights }, index) =>
    lengthWeights.map((weight) => ({ index, weight })),
  );
  if (settings.scale !== 'group' || weights.length === 0) return [];
  const lines = (value: OfEpsilon): Line[] =>
    weights.map(({ index, weight }) => ({
      index,
      points: EPSILON_AXIS.map((epsilon) => [epsilon, value(weight, { scale: 'group', epsilon })]),
    }));
  const alphas = weights.flatMap(({ weight }) => weight.alpha ?? []);
  const range = [minimum(alphas), maximum(alphas)].map((alpha) => Number(alpha.toPrecision(3)));
  const note = (from: string) =>
    alphas.length === 0 ? '' : `alpha ${range.join(' to ')} from the ${from} line`;
  const x = { label: 'epsilon', scale: 'log' } as const;
  const count = rewards.length;
  return [
    {
      title: 'Hold of the length weight, correct answers alone',
      x,
      y: { label: 'epsilon / (std + epsilon)', scale: 'linear' },
      lines: lines(({ allCorrect }, scaling) => holdOf(allCorrect, scaling)),
      count,
      note: note('highest'),
    },
    {
      title: 'Correct answers alone against a mixed group',
      x,
      y: { label: 'ratio of the stds of their advantages', scale: 'linear' },
      lines: lines(balanceOf),
      count,
      note: note('lowest'),
    },
  ];
}

function caption({ groupSize, accuracy, settings }: LabReport): string {
  const { maxLength, epsilon, scale } = settings;
  const divided = scale === 'none' ? 'not divided' : `std of the ${scale} + ${epsilon}`;
  return `groups of ${groupSize}, accuracy ${Number(accuracy.toPrecision(3))}, L ${maxLength}; advantages: ${divided}`;
}

const pathways = ({ prediction }: RewardReport): string => {
  if (prediction.pathways.length === 0) return 'none';
  return `${prediction.pathways.join('+')}${prediction.guarded ? ' guarded' : ''}`;
};

/** An SVG document. @throws MISSING_PACKAGE without d3-scale, which draws the axes */
export async function plotLab(report: LabReport): Promise<string> {
  needObject('the report of plotLab()', report);
  needList('report.rewards', report.rewards);
  const panels = [...CLASSES.flatMap((kind) => panelsOf(report, kind)), ...epsilonPanels(report)];
  const drawn = await Promise.all(panels.map((panel, i) => panelSvg(panel, i % 2, Math.floor(i / 2))));
  const entries = report.rewards.map((reward) => `${reward.name}: ${pathways(reward)}`);
  const key = legend('reward: pathways', entries);
  const height = Math.max(heightOf(panels.length / 2), MARGIN.top + key.height + MARGIN.bottom);
  return svgDocument('What rewards do to lengths', caption(report), [...drawn, key.svg], height);
}
