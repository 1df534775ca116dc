/** The configuration schema as rows and as Markdown, for `docs/` and `acoer train --describe`. */
import { FIELD_GROUPS } from './fields';
import { configJsonSchema, type JsonSchema } from './json-schema';
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

/** Every field with its type, default and meaning, in documentation order. */
export function describeConfig(): FieldDescription[] {
  const { properties } = configJsonSchema();
  return Object.entries(FIELD_GROUPS).flatMap(([group, fields]) =>
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

/** Tables of all fields and presets in Markdown. */
export function describeConfigMarkdown(): string {
  const lines: string[] = [];
  let group = '';
  for (const field of describeConfig()) {
    if (field.group !== group) {
      group = field.group;
      lines.push(...(lines.length > 0 ? [''] : []), `## ${group}`, '');
      lines.push('| setting | type | default | meaning |', '|---|---|---|---|');
    }
    const value = cell(JSON.stringify(field.default));
    lines.push(`| \`${field.name}\` | ${cell(field.type)} | \`${value}\` | ${cell(field.description)} |`);
  }
  lines.push('', '## Presets', '', '| preset | what it is |', '|---|---|');
  for (const [name, preset] of Object.entries(PRESETS))
    lines.push(`| \`${name}\` | ${cell(preset.summary)} |`);
  return `${lines.join('\n')}\n`;
}
