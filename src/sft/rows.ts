/** What a row teaches: a completion, and the prompt before it in one of the forms that TRL's SFTTrainer knows. */
import { chatOf } from '../data/chat';
import { firstOf, head, questionOf, solutionText, USUAL } from '../data/columns';
import type { Found, RowMap, RowProblem } from '../data/columns';
import { BadRow } from '../data/rows';
import { badInput } from '../base/errors';
import type { ChatMessage } from '../base/types';
import type { SftColumns } from './config';

export type Lesson =
  /** Raw text, without a chat template. */
  | { form: 'text'; prompt: string; completion: string }
  /** The messages before the assistant's. */
  | { form: 'chat'; prompt: ChatMessage[]; completion: string }
  /** A question for the run's prompt template, and the messages before it. */
  | { form: 'problem'; prompt: string; before?: readonly ChatMessage[]; completion: string };

/** All that people wrote in it. */
export function textsOf({ prompt, completion, ...rest }: Lesson): string[] {
  const before = 'before' in rest ? (rest.before ?? []) : [];
  const messages = typeof prompt === 'string' ? before : prompt;
  return [
    ...messages.map(({ content }) => content),
    ...(typeof prompt === 'string' ? [prompt] : []),
    completion,
  ];
}

type Role = keyof SftColumns;
type Values = Readonly<Record<string, unknown>>;

const NAMES: Readonly<Record<Role, readonly string[]>> = {
  messages: ['messages'],
  prompt: ['prompt'],
  completion: ['completion'],
  problem: USUAL.problem,
  solution: USUAL.solution,
};

/** The columns of each form, in the order in which they are looked for. */
const FORMS: readonly (readonly Role[])[] = [['messages'], ['prompt', 'completion'], ['problem', 'solution']];

function nonEmpty(lesson: Lesson, column: string): Lesson {
  if (lesson.completion.trim() === '') throw new BadRow(`has nothing to learn in ${column}`);
  return lesson;
}

/** The last message is learnt, those before it are the prompt. */
function chatLesson(messages: readonly ChatMessage[], column: string): Lesson {
  const last = messages.at(-1)!;
  if (last.role !== 'assistant') {
    throw new BadRow(`must end with the assistant's message in ${column}, not the ${last.role}'s`);
  }
  const prompt = messages.slice(0, -1);
  if (prompt.length === 0) throw new BadRow(`has no message before the assistant's in ${column}`);
  return nonEmpty({ form: 'chat', prompt, completion: last.content }, column);
}

/** Reads rows under the usual names of columns, or under those given. */
export class SftRows implements RowMap {
  constructor(private readonly given: SftColumns = {}) {}

  choose(file: string, columns: readonly string[]): readonly string[] {
    const has = (role: Role) => this.names(role).some((name) => columns.includes(head(name, columns)));
    if (!this.forms().some((form) => form.every(has))) {
      throw badInput(`${file} ${this.missing(columns)}`);
    }
    return columns;
  }

  toProblem(values: Values): RowProblem {
    const { prompt } = this.read(values);
    const question = typeof prompt === 'string' ? prompt : prompt.at(-1)!.content;
    return { id: null, question, gold: null, level: null };
  }

  /** @throws BadRow saying what is wrong with the row */
  read(values: Values): Lesson {
    const found = (role: Role) => firstOf(this.names(role), values);
    const form = this.forms().find((roles) => roles.every((role) => found(role) !== null));
    if (form === undefined) throw new BadRow(this.missing(Object.keys(values)));
    const [first, second] = form.map((role) => found(role)!);
    if (second === undefined) return chatLesson(chatOf(first!.value, first!.name), first!.name);
    return form[0] === 'problem' ? problemLesson(first!, second) : pairLesson(first!, second);
  }

  /** Only forms that use the columns given, if any are. */
  private forms(): readonly (readonly Role[])[] {
    const named = FORMS.filter((form) => form.some((role) => this.given[role] !== undefined));
    return named.length > 0 ? named : FORMS;
  }

  private names(role: Role): readonly string[] {
    const given = this.given[role];
    return given === undefined ? NAMES[role] : [given];
  }

  private missing(columns: readonly string[]): string {
    const forms = this.forms().map((form) => form.map((role) => this.names(role).join(' or ')).join(' and '));
    const roles = this.forms()
      .flat()
      .map((role) => `columns.${role}`);
    return `has no values in ${forms.join(', nor in ')}; its columns are ${columns.join(', ')}. Set the right ones with ${roles.join(', ')}`;
  }
}

function pairLesson(prompt: Found, completion: Found): Lesson {
  if (typeof prompt.value === 'string' && typeof completion.value === 'string') {
    return nonEmpty({ form: 'text', prompt: prompt.value, completion: completion.value }, completion.name);
  }
  if (!Array.isArray(prompt.value) || !Array.isArray(completion.value)) {
    throw new BadRow(`must have text in both ${prompt.name} and ${completion.name}, or messages in both`);
  }
  const said = chatOf(completion.value, completion.name);
  if (said.length !== 1) throw new BadRow(`must have one message in ${completion.name}, not ${said.length}`);
  return chatLesson([...chatOf(prompt.value, prompt.name), ...said], completion.name);
}

function problemLesson(problem: Found, solution: Found): Lesson {
  const { question, ...before } = questionOf(problem.value, problem.name);
  const completion = solutionText(solution.value);
  if (completion === null) throw new BadRow(`must have text in ${solution.name}`);
  return nonEmpty({ form: 'problem', prompt: question, ...before, completion }, solution.name);
}
