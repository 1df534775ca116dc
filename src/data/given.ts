/** Data sets that the user's program brings: checked as they are taken, so that no fault reaches a step. */
import { badArgument, needMethods, needObject, needString, returned, shownValue } from '../base/border';
import { badInput } from '../base/errors';
import { isRecord } from '../base/json';
import type { Problem } from '../base/types';
import type { Dataset } from './load';

const TEXTS = [
  ['id', 'a string', (value: unknown) => typeof value === 'string'],
  ['question', 'a string', (value: unknown) => typeof value === 'string'],
  ['gold', 'a string or null', (value: unknown) => value === null || typeof value === 'string'],
  ['level', 'a string or null', (value: unknown) => value === null || typeof value === 'string'],
  ['grading', 'an object', (value: unknown) => value === undefined || isRecord(value)],
] as const;

/** @throws BAD_INPUT naming the row and the field */
function checkedProblem(call: string, work: () => unknown): Problem {
  const bad = (fault: string) => badInput(`${call} ${fault}.`);
  const value = returned(call, work);
  if (!isRecord(value)) throw bad(`returned ${shownValue(value)}, not a problem`);
  if (typeof value['then'] === 'function') throw bad('returned a promise; it must return the problem itself');
  for (const [name, wanted, isRight] of TEXTS) {
    if (!isRight(value[name]))
      throw bad(`has the ${name} ${shownValue(value[name])}, which must be ${wanted}`);
  }
  return value as unknown as Problem;
}

/**
 * `given` with checks; its problems are checked each time they are taken.
 * @param what the argument's name: `trainData`
 * @throws BAD_ARGUMENT for something that is no data set
 */
export function givenDataset(what: string, given: unknown): Dataset {
  needMethods(what, given, ['get']);
  const dataset = given as Dataset;
  const { name, size, longestQuestion, source } = dataset;
  needString(`${what}.name`, name);
  if (!Number.isSafeInteger(size) || size < 1)
    throw badArgument(`${what}.size`, 'a whole number of at least 1', size);
  if (source !== undefined) needObject(`${what}.source`, source);
  return {
    name,
    size,
    ...(longestQuestion !== undefined && { longestQuestion }),
    ...(source !== undefined && { source }),
    get: (index) => checkedProblem(`${what}.get(${index})`, () => dataset.get(index)),
  };
}
