/** Tokens inside and outside the thinking block, and models whose vocabulary cannot mark thinking. */
import { train, type TrainEvent } from '../../src/train';
import { completionTables } from '../../src/run';
import { parquetRows } from '../../src/parquet';
import { mean } from '../../src/base/statistics';
import { fakeParts, fakeRun, metricsOf, newFolder, removeFakeRuns } from '../helpers/fake-run';
import { fakeTokenizer } from '../helpers/fake-tokenizer';
import { asCall } from '../helpers/given';

afterAll(removeFakeRuns);

test('metrics and tables count the tokens outside the first block', async () => {
  const out = newFolder();
  const summary = await (await train(...asCall(fakeRun({ out, maxSteps: 2, completionsSteps: 1 })))).result();
  const lines = metricsOf(out);
  for (const [i, path] of completionTables(out).entries()) {
    const rows: Record<string, number>[] = [];
    for await (const row of parquetRows(path, { path, zipped: false }, (columns) => columns)) {
      rows.push(row as Record<string, number>);
    }
    const meanOf = (name: string) => mean(rows.map((row) => row[name]!));
    expect(lines[i]!['completions/answer_length']).toBe(meanOf('answer_tokens'));
    expect(lines[i]!['thinking/later_blocks_mean']).toBe(meanOf('later_thinking_tokens'));
    expect(rows.some((row) => row.answer_tokens! > 0)).toBe(true);
  }
  const { thinkingTokens, answerTokens, totalTokens } = summary.base.greedy!;
  expect(answerTokens).toBeGreaterThan(0);
  expect(thinkingTokens + answerTokens!).toBeLessThan(totalTokens);
});

describe('a vocabulary without <think>', () => {
  const tokenizer = { ...fakeTokenizer, thinkOpenId: null, thinkCloseId: null };

  test.each(['acoer', 'grpo-lp'])('is measured by the text for %s, which is said', async (reward) => {
    const notices: string[] = [];
    const given = { maxSteps: 2, evalProblems: 0, reward };
    const [settings, options] = asCall(fakeRun({ ...fakeParts(), ...given, tokenizer }));
    const onEvent = (event: TrainEvent) => {
      if (event.type === 'warning') notices.push(event.message);
    };
    const run = await train(settings, { ...options, onEvent });
    await run.result();
    const same = await train(...asCall(fakeRun({ ...fakeParts(), ...given })));
    await same.result();
    expect(metricsOf(run.directory)).toEqual(metricsOf(same.directory));
    const said = `no <think> and </think>, so reward ${reward} .* set rewardParams.${reward}.lengthOf to total`;
    expect(notices).toContainEqual(expect.stringMatching(said));
  });

  test.each([{ reward: 'acc' }, { reward: 'acoer', rewardParams: { acoer: { lengthOf: 'total' } } }])(
    'trains with %j',
    async (settings) => {
      const given = { maxSteps: 2, formatWeight: 0, evalProblems: 0, ...settings };
      const run = await train(...asCall(fakeRun({ ...fakeParts(), ...given, tokenizer })));
      await run.result();
      expect(metricsOf(run.directory)).toHaveLength(2);
    },
  );
});
