/** The lab's report as an SVG picture: advantage by length, and pressure by spread, for each class of answers. */
import { homogeneousOf } from './prediction';
import { HEIGHT, legend, MARGIN, panelSvg, svgDocument, type Line, type Panel } from './svg';
import { CLASSES } from './rollouts';
import type { AnswerClass, LabReport, RewardReport } from './types';

const advantageLine = (report: RewardReport, kind: AnswerClass, index: number): Line => ({
  index,
  points: report.curves[kind].length.map((length, i) => [length, report.curves[kind].advantage[i]!]),
});

function pressureLine(report: RewardReport, kind: AnswerClass, index: number): Line {
  const points = report.sweeps[homogeneousOf(kind)].points.flatMap((point): [number, number][] => {
    const [spread, slope] = [point.lengthStd[kind] ?? 0, 1000 * Math.abs(point[kind]?.advantageSlope ?? 0)];
    // Neither has a place on a logarithmic axis at 0.
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

function caption({ groupSize, accuracy, settings }: LabReport): string {
  const { maxLength, epsilon, scale } = settings;
  const divided = scale === 'none' ? 'not divided' : `std of the ${scale} + ${epsilon}`;
  return `groups of ${groupSize}, accuracy ${Number(accuracy.toPrecision(3))}, L ${maxLength}; advantages: ${divided}`;
}

const pathways = ({ prediction }: RewardReport): string => {
  if (prediction.pathways.length === 0) return 'none';
  return `${prediction.pathways.join('+')}${prediction.guarded ? ' guarded' : ''}`;
};

/** An SVG document. Axes come from d3-scale, an ES module, so it arrives as a promise. */
export async function plotLab(report: LabReport): Promise<string> {
  const panels = CLASSES.flatMap((kind) => panelsOf(report, kind));
  const drawn = await Promise.all(panels.map((panel, i) => panelSvg(panel, i % 2, Math.floor(i / 2))));
  const entries = report.rewards.map((reward) => `${reward.name}: ${pathways(reward)}`);
  const key = legend('reward: pathways', entries);
  const height = Math.max(HEIGHT, MARGIN.top + key.height + MARGIN.bottom);
  return svgDocument('What rewards do to lengths', caption(report), [...drawn, key.svg], height);
}
