/** The settings of a supervised run as Markdown, for docs/sft.md and `acoer sft --describe`. */
import { fieldLists } from '../config';
import { SFT_FIELD_GROUPS, sftSchema } from './config';

export const describeSft = (): string => `${fieldLists(SFT_FIELD_GROUPS, sftSchema).join('\n')}\n`;
