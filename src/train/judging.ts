/** The judge of a run or an evaluation, opened. */
import { resolve } from 'node:path';
import type { Config } from '../config';
import { type AcoerError, badInput } from '../base/errors';
import {
  builtInJudge,
  formatRuleOf,
  functionJudgeName,
  type Grade,
  gradeBuiltIn,
  gradeUser,
  isJudgeFile,
  isJudgeFunction,
  type JudgeFunction,
  judgeOf,
} from '../judges';
import { openJudgeModule } from '../life/modules/judge-module';
import type { AnswerRule } from '#verify/verify';
import { judgeModule, moduleFingerprints } from '../life/modules/user-modules';

export type JudgingSettings = Pick<
  Config,
  'judge' | 'judgeParams' | 'answerFrom' | 'formatRule' | 'formatPattern' | 'rewardTimeoutMs'
>;

export interface OpenedJudge {
  /** Differs from `evaluation` in where the judge math looks for the answer. */
  training: Grade;
  evaluation: Grade;
  close(): Promise<void>;
  [Symbol.asyncDispose](): Promise<void>;
}

const opened = (training: Grade, evaluation: Grade, close = async () => undefined as void): OpenedJudge => ({
  training,
  evaluation,
  close,
  [Symbol.asyncDispose]: close,
});

/** What an evaluation's verdicts depend on; nothing for the verifier, as before there were other judges. */
export async function judgeIdentity(settings: JudgingSettings): Promise<object> {
  const { judge, judgeParams } = settings;
  return judge === 'math'
    ? {}
    : { judge, judgeParams, judgeSha256: await moduleFingerprints(judgeModule(settings)) };
}

const notHere = (name: string): AcoerError =>
  badInput(
    `The judge ${name} was a function of the training program; pass it again to train() as judge. To evaluate, name a judge with --judge.`,
  );

/**
 * @param own the function that was given to `train`
 * @throws BAD_CONFIG for an unknown name, a wrong parameter, or a file that cannot be loaded
 */
export async function openJudge(
  settings: JudgingSettings,
  own?: JudgeFunction,
  signal?: AbortSignal,
): Promise<OpenedJudge> {
  const { judge: name, judgeParams: params, answerFrom, rewardTimeoutMs: timeoutMs } = settings;
  const format = formatRuleOf(settings, name);
  if (isJudgeFunction(name)) {
    if (own === undefined || functionJudgeName(own) !== name) throw notHere(name);
    const grade = gradeUser(judgeOf(own.name || 'judge', own, params), format, timeoutMs);
    return opened(grade, grade);
  }
  if (!isJudgeFile(name)) {
    const gradeFrom = (from: AnswerRule) => gradeBuiltIn(builtInJudge(settings, from), format);
    return opened(gradeFrom(answerFrom), gradeFrom('open-thinking'));
  }
  const judge = await openJudgeModule({ name, path: resolve(name), params }, timeoutMs, signal);
  const grade = gradeUser(judge, format, timeoutMs);
  return opened(grade, grade, () => judge.close!());
}
