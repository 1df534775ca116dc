import { acoer } from '../helpers/cli';

/** The commands in the order of README's table. */
const COMMANDS = [
  ...[
    'init',
    'train',
    'sweep',
    'sft',
    'fork',
    'show',
    'monitor',
    'watch',
    'report',
    'replay',
    'plan',
    'data',
    'export',
    'push',
    'eval',
    'verify',
  ],
  ...['reward', 'lab', 'generate', 'chat', 'serve', 'score', 'bench', 'doctor', 'setup'],
];

/** Lines that would wrap in the middle of a word on a terminal of 80 columns. */
const tooWide = (text: string): string[] => text.split('\n').filter((line) => line.length > 80);

test('help goes to stdout and names every command', async () => {
  const { code, stdout, stderr } = await acoer('--help');
  expect(code).toBe(0);
  expect(stderr).toBe('');
  const named = [...stdout.matchAll(/^ {2}([a-z]+)(?: \[command\])? {2,}/gm)].map(([, name]) => name);
  expect(named).toEqual([...COMMANDS, 'help']);
  expect(tooWide(stdout)).toEqual([]);
});

test.each(COMMANDS)('acoer %s --help exits with 0, like acoer help', async (name) => {
  const direct = await acoer(name, '--help');
  expect(direct).toMatchObject({ code: 0, stderr: '' });
  expect(direct.stdout).toContain(`Usage: acoer ${name}`);
  expect(tooWide(direct.stdout)).toEqual([]);
  expect(direct.stdout).not.toContain('default: [');
  expect(await acoer('help', name)).toMatchObject({ code: 0, stdout: direct.stdout });
});

test('--version is the version of package.json', async () => {
  // eslint-disable-next-line @typescript-eslint/no-require-imports
  const { version } = require('../../package.json') as { version: string };
  expect(await acoer('--version')).toMatchObject({ code: 0, stdout: `${version}\n` });
});

test.each([
  ['nothing at all', [], /Usage: acoer/],
  ['an unknown command', ['generat'], /^acoer: unknown command 'generat'\n\(Did you mean generate\?\)\n$/],
  [
    'an unknown option',
    ['generate', '--temprature', '1'],
    /unknown option '--temprature'\n\(Did you mean --temperature\?\)/,
  ],
  ['a missing option', ['score'], /^acoer: --model is required\.\n$/],
  ['a surplus argument', ['score', '--model', 'tiny', 'a', 'b'], /too many arguments/],
  [
    'not a number',
    ['generate', '--model', 'tiny', '-n', 'two'],
    /'-n, --samples <n>' argument 'two' is invalid\. It must be a whole number/,
  ],
  [
    'a number out of range',
    ['generate', '--model', 'tiny', '--top-p', '1.5'],
    /It must be a number from 0 to 1/,
  ],
  ['not a device', ['score', '--model', 'tiny', '--device', 'gpu'], /It must be auto, cpu, cuda or cuda:N/],
  [
    'not a type',
    ['score', '--model', 'tiny', '--dtype', 'int8'],
    /Allowed choices are float32, bfloat16, float64/,
  ],
  [
    'a missing model',
    ['score', '--model', '/no/such'],
    /^acoer: model \/no\/such: no such folder; name a folder with config\.json and model\.safetensors, a model on .* or the word tiny\.\n$/,
  ],
  ['a folder without a model', ['score', '--model', __dirname], /this folder has no config\.json/],
  [
    'an unknown benchmark',
    ['eval', '--model', 'tiny', '--benchmark', 'nonesuch'],
    /There is no data set "nonesuch"; known names are tiny/,
  ],
  [
    'two models',
    ['bench', 'train', '--model', 'tiny', '--shape', 'tiny'],
    /Give --model or --shape, not both/,
  ],
  ['an unknown bench', ['bench', 'everything'], /Allowed choices are rollout, train, step/],
] as [string, string[], RegExp][])('%s exits with 2 and a message on stderr', async (_, words, message) => {
  const { code, stdout, stderr } = await acoer(...words);
  expect(stderr).toMatch(message);
  expect(stderr).not.toMatch(/^\s+at /m);
  expect({ code, stdout }).toEqual({ code: 2, stdout: '' });
});

test('ACOER_DEBUG=1 adds the stack', async () => {
  process.env.ACOER_DEBUG = '1';
  try {
    const { stderr } = await acoer('score', '--model', '/no/such');
    expect(stderr).toMatch(/^\s+at /m);
  } finally {
    delete process.env.ACOER_DEBUG;
  }
});
