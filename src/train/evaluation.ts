/** A run's evaluations: greedy, and sampled at temperature 1 (greedy decoding hides a loss of certainty). */
import type { Dataset } from '../data';
import { answerTogether, summarise, type EvalCompletion } from '../eval';
import type { Best, EvalKind, EvalPhase, Evaluation, TrainEvent } from '../life/events';
import type { LoopContext } from '../grpo/context';
import { memoryError } from '../grpo/memory';
import type { Inputs } from './inputs';

export interface EvaluationContext extends Pick<
  LoopContext,
  'config' | 'model' | 'policy' | 'reference' | 'tokenizer' | 'grade' | 'watch' | 'ranks'
> {
  /** null: nothing is evaluated. */
  dataset: Dataset | null;
  emit: (event: TrainEvent) => void;
  /** Keeps the answers. */
  save: (kind: EvalKind, completions: readonly EvalCompletion[]) => Promise<void>;
}

export const evaluationContext = (
  loop: LoopContext,
  { evalData: dataset, judge }: Pick<Inputs, 'evalData' | 'judge'>,
  own: Pick<EvaluationContext, 'emit' | 'save'>,
): EvaluationContext => ({ ...loop, grade: judge.evaluation, dataset, ...own });

/** Evaluates the policy, or what training started from, on the same problems with the same seeds every time. */
export function evaluatePolicy(
  context: EvaluationContext,
  phase: EvalPhase,
  signal: AbortSignal | undefined,
): Promise<Evaluation> {
  const watched = phase === 'base' ? 'baseEvaluation' : 'evaluation';
  return context.watch.phase(watched, () => evaluateKinds(context, phase, signal));
}

async function evaluateKinds(
  context: EvaluationContext,
  phase: EvalPhase,
  signal: AbortSignal | undefined,
): Promise<Evaluation> {
  const { config, model, tokenizer, grade, dataset, emit, save, watch, ranks } = context;
  const policy = phase === 'base' ? context.reference : context.policy;
  const evaluateKind = async (kind: EvalKind, n: number) => {
    if (n === 0 || dataset === null) return null;
    const completions: EvalCompletion[] = [];
    const rows = await answerTogether(ranks, {
      model,
      policy,
      tokenizer,
      dataset,
      grade,
      n,
      sampling: kind === 'greedy' ? 'greedy' : { temperature: 1, seed: config.seed },
      maxNewTokens: config.evalMaxNewTokens,
      promptTemplate: config.promptTemplate,
      enableThinking: config.enableThinking,
      maxSlots: config.maxSlots ?? undefined,
      kvBytes: config.kvBytes ?? undefined,
      kvCacheDtype: config.kvCacheDtype,
      numSpeculativeTokens: config.numSpeculativeTokens,
      onFewerSlots: (slots) =>
        emit({
          type: 'warning',
          message: `Out of memory in evaluation; the rest of it decodes at most ${slots} sequences at a time.`,
        }),
      signal,
      // Said when the run was opened.
      onWarning: () => undefined,
      onProgress: (progress) => {
        watch.progress();
        watch.note(() => `${kind} evaluation: ${progress.done} of ${progress.total} answers`);
        emit({ type: 'eval-progress', phase, kind, ...progress });
      },
      onCompletion: (completion) => {
        completions.push(completion);
        const { index, prompt, text, verdict, thinkingTokens } = completion;
        if (kind !== 'greedy' || index !== 0) return;
        const { question } = prompt.problem;
        emit({ type: 'answer', phase, question, text, correct: verdict.correct, thinkingTokens });
      },
    }).catch((error: unknown) => {
      throw memoryError(error, 'evaluation', config);
    });
    // A failure to keep them ends what the others would do next.
    await ranks.fromFirst('keeping the answers of the evaluation', () => save(kind, completions));
    const solved = rows.map(({ verdict }) => (verdict.correct ? '1' : '0')).join('');
    const summary = { ...summarise(rows), solved };
    emit({ type: 'evaluated', phase, kind, summary });
    return summary;
  };
  const greedy = await evaluateKind('greedy', config.evalProblems);
  const sampled = await evaluateKind('sampled', config.evalSampledProblems);
  return { greedy, sampled };
}

/** The better of the best evaluation so far and a new one, by accuracy, then by shorter thinking. */
export function betterOf(
  best: Best | null,
  { step, evaluation }: { step: number; evaluation: Evaluation },
): Best | null {
  const summary = evaluation.greedy ?? evaluation.sampled;
  if (summary === null) return best;
  const { accuracy, thinkingTokens } = summary;
  const better =
    best === null ||
    accuracy > best.accuracy ||
    (accuracy === best.accuracy && thinkingTokens < best.thinkingTokens);
  return better ? { step, accuracy, thinkingTokens } : best;
}
