/**
 * What commands print. Everything that may hold foreign text (data, models, hubs, names of files) goes through here, so
 * that none of it reaches a terminal as a control sequence. Only colours and redrawn lines of our own are written past
 * this file, by the files that `test/architecture.test.ts` names.
 */
import { printable, printableJson, printableMessage } from '../base/printable';

/** Results: lines of text on stdout. */
export const printText = (text: string): void => void process.stdout.write(`${printable(text)}\n`);

/** Results: one line of JSON on stdout. */
export const printJsonLine = (value: unknown): void => void process.stdout.write(`${printableJson(value)}\n`);

/** Everything else: lines on stderr, very long ones shortened. */
export const printNote = (text: string): void => void process.stderr.write(`${printableMessage(text)}\n`);
