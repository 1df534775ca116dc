/** The configuration schema as rows and as Markdown, for `docs/` and `acoer train --describe`. */
import { FIELD_GROUPS } from './fields';
import type { z } from 'zod';
import { configSchema } from './fields';
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
  if (schema.type === 'array') return `list of ${typeName(schema.items ?? {})}`;
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

const cell = (text: string) => text.replaceAll('|', '\\|').replaceAll('\n', '\\n');

/** Tables of fields in Markdown. */
export function fieldTables(groups: FieldGroups, schema: z.ZodObject): string[] {
  const lines: string[] = [];
  let group = '';
  for (const field of describeFields(groups, schema)) {
    if (field.group !== group) {
      group = field.group;
      lines.push(...(lines.length > 0 ? [''] : []), `## ${group}`, '');
      lines.push('| setting | type | default | meaning |', '|---|---|---|---|');
    }
    const value = field.default === undefined ? 'required' : `\`${cell(JSON.stringify(field.default))}\``;
    lines.push(`| \`${field.name}\` | ${cell(field.type)} | ${value} | ${cell(field.description)} |`);
  }
  return lines;
}

/** Tables of all fields and presets in Markdown. */
export function describeConfigMarkdown(): string {
  const lines = fieldTables(FIELD_GROUPS, configSchema);
  lines.push('', '## Presets', '', '| preset | what it is |', '|---|---|');
  for (const [name, preset] of Object.entries(PRESETS))
    lines.push(`| \`${name}\` | ${cell(preset.summary)} |`);
  return `${lines.join('\n')}\n`;
}
