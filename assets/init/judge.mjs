// Says whether a completion is right. Replace it by what is right in your task: a comparison, a parser, tests that a
// program of yours runs.
//
// `answer` is the text after the thinking, `row` the row with all of its columns. Return true or false, or, to see in
// tables what was found in the answer, { correct, extracted }. docs/tasks.md of acoer has the rest.

/** @type {import('acoer').JudgeFunction} */
export default function judge({ answer }, { row }) {
  const extracted = /\\boxed\{([^{}]*)\}/.exec(answer)?.[1]?.trim() ?? null;
  return { correct: extracted === String(row.value), extracted };
}
