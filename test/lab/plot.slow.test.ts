import { plotLab, runLab } from '../../src/lab';
import { registerReward } from '../../src/rewards/registry';

const attributes = (svg: string, name: string): string[] =>
  [...svg.matchAll(new RegExp(` ${name}="([^"]*)"`, 'g'))].map(([, value]) => value!);

/** Every tag is closed and attributes are quoted, which is enough for a document of so few elements. */
function wellFormed(svg: string): boolean {
  const open: string[] = [];
  for (const [, closing, name, empty] of svg.matchAll(
    /<(\/?)([a-z]+)(?:\s+[a-zA-Z-]+="[^"<]*")*\s*(\/?)>/g,
  )) {
    if (closing === '/') {
      if (open.pop() !== name) return false;
    } else if (empty !== '/') open.push(name!);
  }
  const rest = svg.replace(/<[^<>]*>/g, '');
  return open.length === 0 && !/[<>]|&(?!(amp|lt|gt|quot);)/.test(rest);
}

test('panels have axes, a line for each reward that has one, and a legend', async () => {
  const rewards = ['acc', 'acoer', 'grpo-lp'];
  const svg = await plotLab(await runLab({ rewards }));
  expect(wellFormed(svg)).toBe(true);
  expect(svg.match(/class="frame"/g)).toHaveLength(6);
  // Advantages of both classes, the slopes of two rewards and of one, four alphas and one weight twice, and
  // the legend.
  expect(svg.match(/stroke-width/g)).toHaveLength(3 + 3 + 2 + 1 + 2 * (4 + 1) + 3);
  for (const text of ['acc: none', 'acoer: 2 guarded', 'grpo-lp: 1+2', 'no slope: acc, acoer']) {
    expect(svg).toContain(`>${text}<`);
  }
});

test('lines stay in their panels, and no number is missing', async () => {
  const svg = await plotLab(await runLab());
  expect(svg).not.toMatch(/NaN|Infinity|undefined/);
  const tag = /<rect[^>]*width="400"[^>]*class="frame"[^>]*>/.exec(svg)![0];
  const frame = { x: Number(attributes(tag, 'x')[0]), y: Number(attributes(tag, 'y')[0]) };
  const lines = attributes(svg, 'd').filter((d) => d.split('L').length > 3);
  expect(lines.length).toBeGreaterThan(60);
  for (const d of lines) {
    for (const point of d.slice(1).split('L')) {
      const [x, y] = point.split(',').map(Number);
      expect(x).toBeGreaterThanOrEqual(frame.x);
      expect(x).toBeLessThanOrEqual(frame.x + 400);
      expect(y).toBeGreaterThanOrEqual(frame.y);
      expect(y).toBeLessThanOrEqual(frame.y + 270);
    }
  }
});

test('where nothing is divided, or length earns nothing, there are no epsilon panels', async () => {
  for (const options of [{ rewards: ['acoer'], scale: 'none' as const }, { rewards: ['acc'] }]) {
    expect((await plotLab(await runLab(options))).match(/class="frame"/g)).toHaveLength(4);
  }
});

test('names are escaped, and rewards without any slope can be plotted', async () => {
  registerReward('a<b&"c"', () => 1);
  const svg = await plotLab(await runLab({ rewards: ['a<b&"c"'] }));
  expect(wellFormed(svg)).toBe(true);
  expect(svg).toContain('a&lt;b&amp;"c": none');
});
