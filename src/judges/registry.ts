/** Judges by name. */
import { didYouMean } from '../config/nearest';
import { bindParameters } from '../config/parameters';
import { isJavaScriptFile } from '../config/pattern';
import { badConfig } from '../config/problems';
import { shownJson } from '../base/json';
import type { AnswerRule } from '#verify/verify';
import { choice } from './choice';
import { exact } from './exact';
import { math, mathJudge } from './math';
import { regex } from './regex';
import { ANY_REFERENCE } from './user';
import type { Judge, JudgeDefinition, ReferenceRule } from './types';

export const JUDGES: readonly JudgeDefinition[] = [math, exact, choice, regex];

/** Whether `judge` is the path of a module. */
export const isJudgeFile = isJavaScriptFile;

const FUNCTION = 'function:';

/** The name in a run's configuration of a function that was given to `train`. */
export const functionJudgeName = (judge: { name: string }): string => `${FUNCTION}${judge.name || 'judge'}`;

export const isJudgeFunction = (judge: string): boolean => judge.startsWith(FUNCTION);

/** Whether `judge` is the user's own. */
export const isUserJudge = (judge: string): boolean => isJudgeFile(judge) || isJudgeFunction(judge);

export interface JudgeSettings {
  judge: string;
  judgeParams: Readonly<Record<string, unknown>>;
}

function definitionOf(name: string): JudgeDefinition {
  const found = JUDGES.find((judge) => judge.name === name);
  if (found !== undefined) return found;
  const names = JUDGES.map((judge) => judge.name);
  const hint = didYouMean(name, names) || `; choose one of ${names.join(', ')}, or a JavaScript file`;
  throw badConfig([{ path: 'judge', message: `there is no judge ${shownJson(name)}${hint}` }]);
}

/**
 * A built-in judge with its parameters.
 * @param answerFrom for the judge math
 * @throws BAD_CONFIG for an unknown name or parameter
 */
export function builtInJudge({ judge, judgeParams }: JudgeSettings, answerFrom?: AnswerRule): Judge {
  const definition = definitionOf(judge);
  const parameters = bindParameters('judgeParams', definition.parameters, judgeParams);
  if (judge === math.name && answerFrom !== undefined) return mathJudge(answerFrom);
  return { ...definition.judge(parameters), name: judge };
}

/** What the judge of a configuration needs of the reference answers. */
export const referenceRule = (settings: JudgeSettings): ReferenceRule =>
  isUserJudge(settings.judge) ? ANY_REFERENCE : builtInJudge(settings);
