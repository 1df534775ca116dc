import { failureOf } from '../helpers/engine-calls';
import { withEngine } from '../helpers/fixtures';

const before = process.env.ACOER_TEST_DEVICE;
afterEach(() => {
  if (before === undefined) delete process.env.ACOER_TEST_DEVICE;
  else process.env.ACOER_TEST_DEVICE = before;
});

test('the golden tests run on the CPU unless told otherwise', async () => {
  delete process.env.ACOER_TEST_DEVICE;
  await withEngine(async (engine) => expect(engine.deviceInfo.device).toBe('cpu'));
});

test('ACOER_TEST_DEVICE names their device; they never fall back to another', async () => {
  process.env.ACOER_TEST_DEVICE = 'cuda:99';
  const error = await failureOf(() => withEngine(async () => undefined));
  expect(error).toMatchObject({ code: 'DEVICE', message: expect.stringContaining('cuda:99') });
});
