/** Fetching libtorch: the archive from a server here, the wheel from a fake pip; verified, cached, never repeated. */
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http';
import { existsSync, mkdirSync, readdirSync, readFileSync, rmSync, utimesSync, writeFileSync } from 'node:fs';
import type { AddressInfo } from 'node:net';
import { basename, join } from 'node:path';
import {
  fakePython,
  makeArchive,
  makeNvidiaWheel,
  makeWheel,
  temporaryFolder,
} from './helpers/fake-libtorch';
import { ProxyServer } from './helpers/proxy-server';

const loadModules = async () => ({
  ...(await import('../scripts/lib/versions.mjs')),
  ...(await import('../scripts/lib/find.mjs')),
  ...(await import('../scripts/lib/fetch.mjs')),
  ...(await import('../scripts/lib/pip.mjs')),
});
let lib: Awaited<ReturnType<typeof loadModules>>;
beforeAll(async () => {
  lib = await loadModules();
});

const NO_WHEEL = 'echo "ERROR: No matching distribution found for $last" >&2; exit 1';

interface Bench {
  env: NodeJS.ProcessEnv;
  folder: string;
  requests: string[];
  said: () => string;
}

/** A machine whose archive server answers by `respond` and whose `pip download` runs `pip`. */
async function machine(
  respond: (request: IncomingMessage, response: ServerResponse) => void,
  pip: (folder: string) => string = () => NO_WHEEL,
): Promise<Bench> {
  const folder = temporaryFolder();
  const requests: string[] = [];
  const server = createServer((request, response) => {
    requests.push(request.url ?? '');
    respond(request, response);
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  open.push(server);
  const said = jest.spyOn(process.stderr, 'write').mockReturnValue(true);
  const env: NodeJS.ProcessEnv = {
    PATH: process.env.PATH,
    PYTHON: fakePython(join(folder, 'bin'), pip(folder)),
    XDG_CACHE_HOME: join(folder, 'cache'),
    ACOER_LIBTORCH_MIRROR: `http://127.0.0.1:${(server.address() as AddressInfo).port}/libtorch`,
  };
  return { env, folder, requests, said: () => said.mock.calls.map(([text]) => String(text)).join('') };
}

const open: ReturnType<typeof createServer>[] = [];
afterEach(() => {
  jest.restoreAllMocks();
  for (const server of open.splice(0)) server.close();
});

const cpuVersion = (): string => lib.pins.flavours.cpu!.version;
const archiveBytes = (version = cpuVersion(), flavour = 'cpu'): Buffer =>
  readFileSync(makeArchive(join(temporaryFolder(), 'x.zip'), version, flavour));
const notFound = (_: IncomingMessage, response: ServerResponse): void => {
  response.writeHead(404).end('no');
};
const stagingLeft = (env: NodeJS.ProcessEnv): string[] =>
  readdirSync(join(env.XDG_CACHE_HOME!, 'acoer', 'libtorch')).filter((name) => name.startsWith('.tmp'));

/** A `pip download` that hands out the wheels of a folder whose names contain its last argument's project. */
function pipWith(...wheels: string[]): string {
  return wheels.map((wheel) => `cp "${wheel}" "$dest/"`).join('; ');
}

test('the official archive is fetched, verified, unpacked and cached', async () => {
  const bytes = archiveBytes();
  const { env, requests } = await machine((_, response) => response.end(bytes));
  const found = await lib.fetchLibtorch(env, 'cpu');
  expect(requests).toEqual([`/libtorch/cpu/libtorch-shared-with-deps-${cpuVersion()}%2Bcpu.zip`]);
  expect(found).toMatchObject({
    version: cpuVersion(),
    flavour: 'cpu',
    source: expect.stringContaining('archive'),
  });
  expect(basename(lib.cachedFolder(env, 'cpu'))).toBe(`${cpuVersion()}-cpu`);
  expect(readdirSync(join(found.root, 'lib')).sort()).toEqual(['libc10.so', 'libtorch_cpu.so']);
  expect(stagingLeft(env)).toEqual([]);
  // What a second set-up sees before it would fetch.
  const again = lib.findLibtorch({ ...env, PYTHON: 'no-python' }, { flavour: 'cpu', asked: false });
  expect(again?.root).toBe(found.root);
});

test('a server that says no leads to the wheel, in one line', async () => {
  const { env, said } = await machine(notFound, () =>
    pipWith(makeWheel(temporaryFolder(), cpuVersion(), 'cpu')),
  );
  const found = await lib.fetchLibtorch(env, 'cpu');
  expect(found.source).toBe('cache (torch wheel through pip)');
  expect(said()).toMatch(
    /acoer setup: http.*\.zip answered 404 Not Found; trying the torch wheel through pip\n/,
  );
  expect(existsSync(join(found.root, 'nn'))).toBe(false);
});

test('a proxy of the environment is used, and named without its password when it cannot be reached', async () => {
  const bytes = archiveBytes();
  const { env, said } = await machine((_, response) => response.end(bytes));
  const proxy = await new ProxyServer().start();
  const port = new URL(env.ACOER_LIBTORCH_MIRROR!).port;
  const hidden = { ...env, ACOER_LIBTORCH_MIRROR: `http://mirror.invalid:${port}/libtorch` };
  await lib.fetchLibtorch({ ...hidden, http_proxy: `127.0.0.1:${proxy.port}` }, 'cpu');
  expect(proxy.log).toEqual([`GET ${lib.archiveUrl({ version: cpuVersion(), flavour: 'cpu' }, hidden)}`]);
  await proxy.stop();
  const gone = { ...hidden, HTTP_PROXY: 'http://me:secret@127.0.0.1:9', XDG_CACHE_HOME: temporaryFolder() };
  await expect(lib.fetchLibtorch(gone, 'cpu')).rejects.toThrow(
    /mirror\.invalid:\d+ cannot be reached through the proxy http:\/\/127\.0\.0\.1:9 \(ECONNREFUSED\)/,
  );
  expect(said()).not.toContain('secret');
});

test('an address where nobody listens fails at once', async () => {
  const { env, said } = await machine(notFound, () =>
    pipWith(makeWheel(temporaryFolder(), cpuVersion(), 'cpu')),
  );
  open.splice(0).forEach((server) => server.close());
  const startMs = Date.now();
  await lib.fetchLibtorch(env, 'cpu');
  expect(Date.now() - startMs).toBeLessThan(10_000);
  expect(said()).toMatch(/127\.0\.0\.1:\d+ cannot be reached \(ECONNREFUSED\); trying/);
});

test('a server that never answers is given up soon', async () => {
  const { download } = await import('../scripts/lib/download.mjs');
  const { env, folder } = await machine(() => {});
  const fetching = download(`${env.ACOER_LIBTORCH_MIRROR}/x.zip`, join(folder, 'x'), {
    connectTimeoutMs: 200,
  });
  await expect(fetching).rejects.toThrow(/cannot be reached \(no answer in 0\.2 s\)/);
});

describe('a broken download is noticed', () => {
  const attempts: [string, (bytes: Buffer, response: ServerResponse) => void, RegExp][] = [
    [
      'the connection breaks',
      (bytes, response) => {
        response.writeHead(200, { 'content-length': bytes.length });
        response.write(bytes.subarray(0, 200), () => response.destroy());
      },
      /was interrupted after \d+ bytes/,
    ],
    [
      'the end is missing',
      (bytes, response) => response.end(bytes.subarray(0, bytes.length / 2)),
      /is broken: /,
    ],
    ['a page instead', (_, response) => response.end('<html>log in first</html>'), /is broken: .*not a zip/],
    [
      'a changed byte',
      (bytes, response) => {
        const changed = Buffer.from(bytes);
        const at = changed.indexOf('ATen.h') - 400;
        changed[Math.max(60, at)]! ^= 0xff;
        response.end(changed);
      },
      /is broken: /,
    ],
  ];
  test.each(attempts)('%s', async (_, respond, expected) => {
    const bytes = archiveBytes();
    const { env, said } = await machine((_request, response) => respond(bytes, response));
    await expect(lib.fetchLibtorch(env, 'cpu')).rejects.toThrow(expected);
    expect(said()).toContain('; trying the torch wheel through pip');
    expect(stagingLeft(env)).toEqual([]);
    expect(lib.fromCache(env, 'cpu')).toBeNull();
  });
});

test('when nothing works it is one sentence with each reason and what to do', async () => {
  const { env } = await machine(notFound);
  await expect(lib.fetchLibtorch(env, 'cpu')).rejects.toThrow(
    /^libtorch .* \(cpu\) could not be fetched: .* answered 404 Not Found; pip cannot get torch==.*: No matching distribution found for .*\. Connect to the internet and run `.*` again, or set LIBTORCH to a folder .*\.$/,
  );
});

test('where this Python has no wheel, another Python’s is taken', async () => {
  const wheel = makeWheel(temporaryFolder(), cpuVersion(), 'cpu');
  const script = `case "$*" in *"--python-version 3.12"*) ${pipWith(wheel)};; *) ${NO_WHEEL};; esac`;
  const { env } = await machine(notFound, () => script);
  expect((await lib.fetchLibtorch(env, 'cpu')).flavour).toBe('cpu');
});

test('a wheel of another flavour is refused', async () => {
  const { env } = await machine(notFound, () => pipWith(makeWheel(temporaryFolder(), cpuVersion(), 'cu130')));
  await expect(lib.fetchLibtorch(env, 'cpu')).rejects.toThrow(/pip offers torch .* for cu130, not for cpu/);
});

test('an archive of another version is refused', async () => {
  const bytes = archiveBytes('2.12.0');
  const { env } = await machine((_, response) => response.end(bytes));
  await expect(lib.fetchLibtorch(env, 'cpu')).rejects.toThrow(/got libtorch 2\.12\.0 for cpu instead of/);
});

test('a wheel whose file differs from its RECORD is refused', async () => {
  const { env } = await machine(notFound, (folder) => {
    const wheel = makeWheel(join(folder, 'made'), cpuVersion(), 'cpu');
    const rewrite = [
      'import sys, zipfile, shutil',
      'src, dst = sys.argv[1:3]',
      "a, b = zipfile.ZipFile(src), zipfile.ZipFile(dst, 'w')",
      "[b.writestr(i, b'changed' if i.filename.endswith('libc10.so') else a.read(i)) for i in a.infolist()]",
      'b.close()',
    ].join('\n');
    writeFileSync(join(folder, 'rewrite.py'), rewrite);
    return `"$0" "${join(folder, 'rewrite.py')}" "${wheel}" "$dest/${basename(wheel)}"`;
  });
  await expect(lib.fetchLibtorch(env, 'cpu')).rejects.toThrow(
    /torch\/lib\/libc10\.so differs from the wheel's RECORD/,
  );
});

test('a disk that fills up while pip downloads is said as such', async () => {
  const script =
    'echo "ERROR: Could not install packages due to an OSError: [Errno 28] No space left on device" >&2; exit 1';
  const { env } = await machine(notFound, () => script);
  await expect(lib.fetchLibtorch(env, 'cpu')).rejects.toThrow(/^the disk with .* is full: free some space/);
  expect(stagingLeft(env)).toEqual([]);
});

test('a cache folder that cannot be written', async () => {
  const { env, folder } = await machine(notFound);
  writeFileSync(join(folder, 'file'), '');
  env.XDG_CACHE_HOME = join(folder, 'file');
  await expect(lib.fetchLibtorch(env, 'cpu')).rejects.toThrow(
    /cannot be written \(ENOTDIR\): set XDG_CACHE_HOME to a folder you own/,
  );
});

test('CUDA: NVIDIA’s wheels lie beside torch, and only what libtorch needs of them', async () => {
  const { version } = lib.pins.flavours.cu130!;
  const metadata = [
    'Requires-Dist: filelock',
    'Requires-Dist: cuda-toolkit[cublas,cudart]==13.0.3; platform_system == "Linux"',
    'Requires-Dist: nvidia-nccl-cu13==2.30.7; platform_system == "Linux"',
    'Requires-Dist: triton==3.9; platform_system == "Linux"',
    '',
  ].join('\n');
  const made = temporaryFolder();
  const torch = makeWheel(made, version, 'cu130', metadata);
  const nccl = makeNvidiaWheel(made, 'nvidia_nccl_cu13');
  const script = `case "$*" in *torch==*) ${pipWith(torch)};; *) ${pipWith(nccl)};; esac`;
  const { env, folder } = await machine(notFound, () => script);
  const found = await lib.fetchLibtorch(env, 'cu130');
  expect(found.flavour).toBe('cu130');
  expect(readdirSync(join(found.root, '..', 'nvidia', 'cu13'))).toEqual(['lib']);
  const calls = readFileSync(join(folder, 'bin', 'pip-calls'), 'utf8')
    .trim()
    .split('\n');
  expect(calls).toHaveLength(2);
  expect(calls[0]).toContain('--no-deps');
  expect(calls[1]).toMatch(/ cuda-toolkit\[cublas,cudart\]==13\.0\.3 nvidia-nccl-cu13==2\.30\.7$/);
});

test('what a killed set-up left is removed, and what a running one makes is not, on this machine or another', async () => {
  const bytes = archiveBytes();
  let ownName = '';
  const { env } = await machine((_, response) => {
    ownName = stagingLeft(env).find((name) => /^\.tmp-[^-]+-\d+-/.test(name) && !others.includes(name))!;
    response.end(bytes);
  });
  const cache = join(env.XDG_CACHE_HOME!, 'acoer', 'libtorch');
  const others: string[] = [];
  const make = (name: string, changed?: Date): string => {
    const path = join(cache, name);
    others.push(name);
    mkdirSync(join(path, '0'), { recursive: true });
    const file = join(path, '0', 'libtorch.zip');
    writeFileSync(file, 'part');
    if (changed !== undefined) {
      for (const old of [file, join(path, '0'), path]) utimesSync(old, changed, changed);
    }
    return path;
  };
  // Other machines and containers count their processes anew, so the number tells nothing about theirs.
  const hoursAgo = (hours: number) => new Date(Date.now() - hours * 3_600_000);
  const theirs = make('.tmp-00000000.4026531836-4194305-aa', hoursAgo(23));
  const theirsLeft = make(`.tmp-00000000.4026531836-${process.pid}-bb`, hoursAgo(25));
  const growing = make('.tmp-00000000.4026531836-4194305-cc', hoursAgo(25));
  writeFileSync(join(growing, '0', 'libtorch.zip'), 'more');
  await lib.fetchLibtorch(env, 'cpu');
  expect([theirs, theirsLeft, growing].map((path) => existsSync(path))).toEqual([true, false, true]);
  // Ours are known at once.
  const place = /^\.tmp-([^-]+)-/.exec(ownName)![1]!;
  const dead = make(`.tmp-${place}-4194305-dd`); // above the largest pid
  const alive = make(`.tmp-${place}-${process.pid}-ee`, hoursAgo(25));
  rmSync(lib.cachedFolder(env, 'cpu'), { recursive: true });
  await lib.fetchLibtorch(env, 'cpu');
  expect([dead, alive].map((path) => existsSync(path))).toEqual([false, true]);
});

test('two set-ups at once end with one whole folder', async () => {
  const bytes = archiveBytes();
  const { env } = await machine((_, response) => response.end(bytes));
  const both = await Promise.all([lib.fetchLibtorch(env, 'cpu'), lib.fetchLibtorch(env, 'cpu')]);
  expect(both[0].root).toBe(both[1].root);
  expect(stagingLeft(env)).toEqual([]);
});
