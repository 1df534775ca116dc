/** `--judge` and `--judge-param`, which several commands share. */
import type { Command } from 'commander';
import { type Config, parseAssignments, resolveConfig } from '../config';
import { badUsage } from '../base/errors';
import { isUserJudge, referenceRule, type ReferenceRule } from '../judges';
import { judgeModule, rememberModules, type JudgingSettings } from '../train';
import { repeatable } from './command';
import { printNote } from './output';

export interface JudgeFlags {
  judge?: string;
  judgeParam: string[];
}

export function addJudgeOptions(command: Command): void {
  command
    .option('--judge <name|file>', 'what decides: math, exact, choice, regex or a JavaScript file')
    .addOption(repeatable('--judge-param <name=value>', 'parameter of the judge'));
}

/** @param run whose judge counts if the flags name none; null: the verifier */
export function judgingSettings({ judge, judgeParam }: JudgeFlags, run: Config | null): JudgingSettings {
  if (judge === undefined && judgeParam.length > 0) {
    throw badUsage('--judge-param needs --judge.');
  }
  const base = run ?? resolveConfig([], 'paper');
  if (judge === undefined) return { ...base, answerFrom: 'answer' };
  const { judgeParams = {} } = parseAssignments(judgeParam.map((text) => `judgeParams.${text}`));
  return { ...base, judge, judgeParams, answerFrom: 'answer' };
}

/** Notes that a judge in a file was named on this command line. */
export const rememberJudge = (settings: JudgingSettings): Promise<void> =>
  rememberModules(judgeModule(settings), printNote);

/** What the judge asks of the data it is used on. */
export const dataRules = (settings: JudgingSettings): { references: ReferenceRule; keepRows: boolean } => ({
  references: referenceRule(settings),
  keepRows: isUserJudge(settings.judge),
});
