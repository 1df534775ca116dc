/** A hub and an empty cache for each test, with the environment pointing at them. */
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { HubServer, SAMPLE } from './hub-server';

type Environment = Record<string, string | undefined>;

const NAMES = [
  'HF_ENDPOINT',
  'HF_HOME',
  'HF_HUB_CACHE',
  'HUGGINGFACE_HUB_CACHE',
  'HF_TOKEN',
  'HUGGING_FACE_HUB_TOKEN',
]
  .concat(['HF_TOKEN_PATH', 'HF_HUB_OFFLINE', 'TRANSFORMERS_OFFLINE', 'HF_HUB_DOWNLOAD_TIMEOUT'])
  .concat(['HTTP_PROXY', 'HTTPS_PROXY', 'NO_PROXY'].flatMap((name) => [name, name.toLowerCase()]));

export function setEnvironment(values: Environment): void {
  for (const [name, value] of Object.entries(values)) {
    if (value === undefined) delete process.env[name];
    else process.env[name] = value;
  }
}

export function hubForTests() {
  let server: InstanceType<typeof HubServer>;
  let home: string;
  const before: Environment = Object.fromEntries(NAMES.map((name) => [name, process.env[name]]));
  beforeEach(async () => {
    home = mkdtempSync(join(tmpdir(), 'acoer-hub-'));
    server = await new HubServer().start();
    for (const [name, files] of Object.entries(SAMPLE)) server.add(name, files);
    setEnvironment(Object.fromEntries(NAMES.map((name) => [name, undefined])));
    setEnvironment({ HF_ENDPOINT: server.endpoint, HF_HOME: home });
  });
  afterEach(async () => {
    setEnvironment(before);
    await server.stop();
    rmSync(home, { recursive: true, force: true });
  });
  return { hub: () => server, cache: () => join(home, 'hub'), setEnvironment };
}

/** The error message that a user sees when `work` fails. */
export async function sentence(work: Promise<unknown>): Promise<string> {
  const error = await work.then(
    () => new Error('nothing was thrown'),
    (thrown: unknown) => thrown as Error,
  );
  expect(error).toMatchObject({ code: 'HUB' });
  expect(error.message).not.toContain('\n');
  return error.message;
}
