/** Validation of the parameters of a reward or a loss, done once, when it is bound. */
import type { z } from 'zod';

import { badConfig, problemsOf } from './problems';

/** The parameters with defaults filled in. @throws BAD_CONFIG with all that is wrong below `path` */
export function bindParameters<Schema extends z.ZodObject>(
  path: string,
  schema: Schema,
  given: Readonly<Record<string, unknown>>,
): z.output<Schema> {
  const result = schema.safeParse(given);
  if (result.success) return result.data;
  const known = Object.keys(schema.shape);
  const problems = result.error.issues.flatMap((issue) => problemsOf(issue, given, known));
  throw badConfig(problems.map((problem) => ({ ...problem, path: `${path}.${problem.path}` })));
}

/** The values of `schema` when nothing is set. */
export const defaultsOf = (schema: z.ZodObject): Record<string, number | string | boolean> =>
  schema.parse({}) as Record<string, number | string | boolean>;
