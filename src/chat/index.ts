export { AnswerText, type AnswerParts, type AnswerTextOptions } from './answer-text';
export type { Answer, Answers, Piece } from './answers';
export {
  type AnswerStream,
  type AskingOptions,
  ChatModel,
  type ChatOptions,
  DEFAULT_MODEL_LENGTH,
  openModel,
  type OpenModelOptions,
  type TokenPrompt,
} from './model';
export { BASE } from './names';
