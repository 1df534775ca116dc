/** The kinds of values that settings take. */
import { z } from 'zod';

export const count = (minimum = 1) => z.int().min(minimum);
export const positive = () => z.number().positive();
export const nonNegative = () => z.number().min(0);
export const fraction = () => nonNegative().max(1);
export const text = () => z.string().min(1);
export const flag = (value: boolean) => z.boolean().default(value);
export const oneOf = <const Word extends string>(...words: [usual: Word, ...others: Word[]]) =>
  z.enum(words).default(words[0] as never);

/** A kind with the value of a setting that is not given. */
export const orElse = <Kind extends z.ZodType>(kind: Kind, value: z.output<Kind>) =>
  kind.default(value as never);
/** What can also be null, which is the default unless there is another. */
export const orNull = <Kind extends z.ZodType>(kind: Kind, value: z.output<Kind> | null = null) =>
  kind.nullable().default(value as never);
/** The parameters of something that checks them itself. */
export const parameters = () => z.record(z.string(), z.unknown()).default({});
