/** The configuration as a JSON Schema (draft 7, which editors read), from which its documentation is made. */
import { z } from 'zod';
import { configSchema } from './fields';
import { trlNameOf } from './trl-names';

export type JsonSchema = z.core.JSONSchema.JSONSchema;
type ObjectSchema = JsonSchema & { properties: Record<string, JsonSchema> };

/** The schema of what a user may give: defaults are filled in later. Descriptions name TRL's equivalent. */
export const configJsonSchema = (): ObjectSchema => jsonSchemaOf(configSchema);

/** The same for any schema of settings. */
export function jsonSchemaOf(settings: z.ZodObject): ObjectSchema {
  const schema = z.toJSONSchema(settings, {
    io: 'input',
    target: 'draft-7',
    override: ({ zodSchema, jsonSchema }) => {
      // zod bounds every whole number by the safe integers, which tells a reader nothing.
      if (jsonSchema.minimum === Number.MIN_SAFE_INTEGER) delete jsonSchema.minimum;
      if (jsonSchema.maximum === Number.MAX_SAFE_INTEGER) delete jsonSchema.maximum;
      // A string that may be written as a number.
      if (zodSchema instanceof z.ZodString && zodSchema.def.coerce === true)
        jsonSchema.type = ['string', 'number'] as never;
    },
  }) as ObjectSchema;
  for (const [name, property] of Object.entries(schema.properties)) {
    const trl = trlNameOf(name);
    if (trl !== null && !property.description!.includes('TRL:')) property.description += ` TRL: ${trl}.`;
  }
  return schema;
}
