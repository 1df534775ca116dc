/** README.md of an exported folder: the run's card, with what the folder holds and how exact it is. */
import { existsSync } from 'node:fs';
import { basename, isAbsolute, join } from 'node:path';
import { parse, stringify } from 'yaml';
import { isRecord } from '../base/json';
import { mean, sum } from '../base/statistics';
import { percent } from '../base/text';
import { packageVersion } from '../base/version';
import { splitRevision } from '../hub';
import { readRunFile } from '../run';
import type { MergeReport } from './merged-model';
import { proofProblem } from './proof';
import type { ExportSource } from './source';

const MAX_CARD_BYTES = 1 << 20;
const FRONT = /^---\n([^]*?)\n---\n/;

/** Headings of a run's card that stay; what it holds and how it is used is another here. */
const KEPT = ['## Evaluation before and after training', '## Evaluation', '## Training'];

/** The run's own card, or what stands for one that it has not written yet. */
export function runCard({ run }: ExportSource): string {
  const path = join(run.final(), 'README.md');
  return existsSync(path) ? readRunFile(path, MAX_CARD_BYTES).toString('utf8') : '';
}

/** What hubs read: the run's, as of a whole model. */
export function frontMatter(card: string): Record<string, unknown> {
  const fields: unknown = parse(FRONT.exec(card)?.[1] ?? '') ?? {};
  const { tags, base_model_relation: relation, ...rest } = isRecord(fields) ? fields : {};
  const kept = Array.isArray(tags) ? tags.filter((tag) => tag !== 'lora') : ['acoer', 'reasoning'];
  return {
    ...rest,
    ...(relation !== undefined && { base_model_relation: 'finetune' }),
    library_name: 'transformers',
    pipeline_tag: 'text-generation',
    tags: kept,
  };
}

/** The sections of the run's card that are as true of the export. */
const keptSections = (card: string): string =>
  card
    .replace(FRONT, '')
    .split(/^(?=## )/m)
    .filter((section) => KEPT.some((heading) => section.startsWith(`${heading}\n`)))
    .join('');

/** Of all adapted weights alike: root mean square of the rounding error over that of the update, and what it left. */
function lost(matrices: MergeReport['matrices']): { error: number; unchanged: number } {
  const squares = (of: (matrix: MergeReport['matrices'][number]) => number) =>
    sum(matrices.map((matrix) => of(matrix) ** 2));
  return {
    error: Math.sqrt(squares(({ errorRms }) => errorRms) / squares(({ updateRms }) => updateRms)),
    unchanged: mean(matrices.map(({ unchanged }) => unchanged)),
  };
}

/** What the export of a run over a quantised base is not; null: there is nothing to say. */
export const otherBase = ({ quantization }: Pick<ExportSource, 'quantization'>): string | null =>
  quantization === null
    ? null
    : `the run was trained over a base in ${quantization}, and the export has the model's own weights under the adapter, as the comparison has: its answers differ from those of the training by the error of ${quantization}`;

/** How near the export is to the run: what, and how much. */
export function exactness({
  proof,
  matrices,
}: Pick<MergeReport, 'proof' | 'matrices'>): [what: string, figure: string][] {
  const { error, unchanged } = lost(matrices);
  return [
    ["greedy answers equal to the run's", `${proof.sameAnswers} of ${proof.prompts}`],
    ['tokens compared', String(proof.tokens)],
    ['mean difference of their log-probs', proof.meanLogprobError.toExponential(1)],
    ['largest difference', proof.maxLogprobError.toExponential(1)],
    ['KL(run, export) per token, nats', proof.kl.toExponential(1)],
    ...(matrices.length === 0
      ? []
      : ([
          ['rounding error of the weights, of the update', percent(error)],
          ['adapted weights that stayed as they were', percent(unchanged)],
        ] satisfies [string, string][])),
  ];
}

function exactnessSection(source: ExportSource, report: MergeReport): string {
  const { proof, type, comparedIn } = report;
  const rows = [['', type], ['---', '---'], ...exactness(report)];
  const problem = proofProblem(proof);
  const verdict = problem === null ? '' : `\n\n**This is not the run: ${problem}.**`;
  const other = otherBase(source);
  const note = other === null ? '' : `\n\nNote: ${other}.`;
  return `Weights and adapter were added in float32 and rounded once to ${type}. The run and this folder, both
computed in ${comparedIn}, were given the same prompts:

${rows.map((row) => `| ${row.join(' | ')} |`).join('\n')}${verdict}${note}`;
}

/** The folder's card. */
export function mergedCard(source: ExportSource, report: MergeReport): string {
  const card = runCard(source);
  const name = isAbsolute(source.modelName) ? basename(source.modelName) : splitRevision(source.modelName).id;
  const what =
    source.adapter === null ? 'with all weights trained' : 'with the trained adapter merged into its weights';
  return `---
${stringify(frontMatter(card))}---

# ${name}, trained by acoer

\`${name}\` ${what}: step ${report.step} of a run of acoer ${packageVersion()}, as one model.

${keptSections(card)}## Exactness

${exactnessSection(source, report)}

## Use

\`\`\`python
from transformers import AutoModelForCausalLM, AutoTokenizer

model = AutoModelForCausalLM.from_pretrained("this folder, or its name on the hub")
tokenizer = AutoTokenizer.from_pretrained("this folder, or its name on the hub")
\`\`\`
`;
}
