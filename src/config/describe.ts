/** The configuration schema as rows and as Markdown, for `docs/` and `acoer train --describe`. */
import type { z } from 'zod';
import { configSchema, FIELD_GROUPS } from './fields';
import { jsonSchemaOf, type JsonSchema } from './json-schema';
import { PRESETS } from './presets';

export interface FieldDescription {
  group: string;
  name: string;
  type: string;
  default: unknown;
  description: string;
}

function typeName(schema: JsonSchema): string {
  if (schema.enum !== undefined) return schema.enum.map(String).join(' | ');
  if (schema.anyOf !== undefined) return schema.anyOf.map(typeName).join(' or ');
  if (Array.isArray(schema.type)) return schema.type.join(' or ');
  if (schema.type === 'array') return `list of ${typeName((schema.items ?? {}) as JsonSchema)}`;
  if (schema.type === 'object') return 'map';
  return schema.type ?? 'any';
}

/** Fields by heading. */
export type FieldGroups = Readonly<Record<string, object>>;

/** Every field with its type, default and meaning, in documentation order. */
export const describeConfig = (): FieldDescription[] => describeFields(FIELD_GROUPS, configSchema);

function describeFields(groups: FieldGroups, schema: z.ZodObject): FieldDescription[] {
  const { properties } = jsonSchemaOf(schema);
  return Object.entries(groups).flatMap(([group, fields]) =>
    Object.keys(fields).map((name) => {
      const property = properties[name]!;
      return {
        group,
        name,
        type: typeName(property),
        default: property.default,
        description: property.description!,
      };
    }),
  );
}

/** JSON on one line, as the page shows it. */
const shown = (value: unknown) => (value === undefined ? 'required' : `default \`${JSON.stringify(value)}\``);

/** Lists of fields in Markdown, one under each heading. */
export function fieldLists(groups: FieldGroups, schema: z.ZodObject): string[] {
  const lines: string[] = [];
  let group = '';
  for (const field of describeFields(groups, schema)) {
    if (field.group !== group) {
      group = field.group;
      lines.push(...(lines.length > 0 ? [''] : []), `## ${group}`, '');
    }
    lines.push(`- \`${field.name}\` (${field.type}, ${shown(field.default)}): ${field.description}`);
  }
  return lines;
}

/** Lists of all fields and presets in Markdown. */
export function describeConfigMarkdown(): string {
  const lines = fieldLists(FIELD_GROUPS, configSchema);
  lines.push('', '## Presets', '');
  for (const [name, preset] of Object.entries(PRESETS)) lines.push(`- \`${name}\`: ${preset.summary}`);
  return `${lines.join('\n')}\n`;
}
