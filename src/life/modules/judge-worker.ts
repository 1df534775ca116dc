/** The thread of a judge in a file: answers calls of `judge-module.ts`. */
import { workerData } from 'node:worker_threads';
import { judgeOf, type JudgeFunction } from '../../judges';
import { importDefault } from './import-default';
import { serveCalls } from './module-host';
import type { JudgeSetup, ToJudge } from './judge-module';

const { name, path, params } = workerData as JudgeSetup;

void serveCalls<ToJudge>(async () => {
  const judge = judgeOf(name, (await importDefault(path)) as JudgeFunction, params);
  return { first: null, answer: ({ completion, problem }) => judge.verdict(completion, problem) };
});
