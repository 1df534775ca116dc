import { resolveConfig } from '../../src/config';
import { loadDataset } from '../../src/data';
import { TINY_MODEL } from '../../src/models';
import { loadTokenizer } from '../../src/tokenizer';
import { somePrompts, spreadOver } from '../../src/train/some-prompts';

test.each([1, 2, 5, 64, 500])('%i places lie one in each equal stretch', (count) => {
  for (const size of [count, count + 1, 8 * count, 2 ** 17]) {
    const places = spreadOver(size, count);
    expect(new Set(places).size).toBe(count);
    places.forEach((place, i) => {
      expect(place).toBeGreaterThanOrEqual(Math.floor((i * size) / count));
      expect(place).toBeLessThan(Math.floor(((i + 1) * size) / count));
    });
  }
});

test('prompts of every level are seen where levels take turns', async () => {
  const trainData = await loadDataset({ name: 'tiny-hard', split: 'train', seed: 1 });
  const tokenizer = await loadTokenizer(TINY_MODEL);
  const prompts = await somePrompts(resolveConfig([], 'tiny-hard'), { tokenizer, trainData }, 64);
  expect(new Set(prompts.map(({ length }) => length)).size).toBe(8);
});
