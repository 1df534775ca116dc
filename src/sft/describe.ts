/** The settings of a supervised run as Markdown, for docs/sft.md and `acoer sft --describe`. */
import { fieldTables } from '../config';
import { SFT_FIELD_GROUPS, sftSchema } from './config';

export const describeSft = (): string => `${fieldTables(SFT_FIELD_GROUPS, sftSchema).join('\n')}\n`;
