/** Fetching libtorch: the archive from a server here, the wheel from a fake pip; verified, cached, never repeated. */
import { createHash } from 'node:crypto';
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http';
import { existsSync, mkdirSync, readdirSync, readFileSync, rmSync, utimesSync, writeFileSync } from 'node:fs';
import type { AddressInfo } from 'node:net';
import { basename, join } from 'node:path';
import { execFileSync } from 'node:child_process';
import {
  fakePython,
  makeArchive,
  makeNvidiaWheel,
  makeWheel,
  realPython,
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
const sha256 = (bytes: Buffer): string => createHash('sha256').update(bytes).digest('hex');

/** The flavours' pins, replaced by those of the files made here and restored after each test. */
let pins: typeof lib.pins.flavours;
beforeEach(() => {
  pins = structuredClone(lib.pins.flavours);
});
afterEach(() => Object.assign(lib.pins.flavours, pins));

/** An archive that is pinned. */
function archiveBytes(version = cpuVersion(), flavour = 'cpu'): Buffer {
  const bytes = readFileSync(makeArchive(join(temporaryFolder(), 'x.zip'), version, flavour));
  lib.pins.flavours.cpu!.archiveSha256 = sha256(bytes);
  return bytes;
}

/** Pins the wheels, and no others. */
function pinned(flavour: string, ...wheels: string[]): string[] {
  const digests = wheels.map((path) => [basename(path), sha256(readFileSync(path))]);
  lib.pins.flavours[flavour]!.wheels = Object.fromEntries(digests) as Record<string, string>;
  return wheels;
}
const pinnedWheel = (): string => pinned('cpu', makeWheel(temporaryFolder(), cpuVersion(), 'cpu'))[0]!;
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

test('a cache where there can be no folder is refused, and not tried for ever', async () => {
  const { env } = await machine(notFound);
  await expect(lib.fetchLibtorch({ ...env, XDG_CACHE_HOME: '/proc/acoer' }, 'cpu')).rejects.toThrow(
    '/proc/acoer/acoer/libtorch cannot be written (ENOENT): set XDG_CACHE_HOME to a folder you own.',
  );
});

test('a server that says no leads to the wheel, in one line', async () => {
  const { env, said } = await machine(notFound, () => pipWith(pinnedWheel()));
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
  await lib.fetchLibtorch({ ...env, http_proxy: `127.0.0.1:${proxy.port}` }, 'cpu');
  expect(proxy.log).toEqual([`GET ${lib.archiveUrl({ version: cpuVersion(), flavour: 'cpu' }, env)}`]);
  await proxy.stop();
  const gone = { ...env, HTTP_PROXY: 'http://me:secret@127.0.0.1:9', XDG_CACHE_HOME: temporaryFolder() };
  await expect(lib.fetchLibtorch(gone, 'cpu')).rejects.toThrow(
    /127\.0\.0\.1:\d+ cannot be reached through the proxy http:\/\/127\.0\.0\.1:9 \(ECONNREFUSED\)/,
  );
  expect(said()).not.toContain('secret');
});

test('an address where nobody listens fails at once', async () => {
  const { env, said } = await machine(notFound, () => pipWith(pinnedWheel()));
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

describe('a broken download is noticed before it is unpacked', () => {
  const attempts: [string, (bytes: Buffer, response: ServerResponse) => void, RegExp][] = [
    [
      'the connection breaks',
      (bytes, response) => {
        response.writeHead(200, { 'content-length': bytes.length });
        response.write(bytes.subarray(0, 200), () => response.destroy());
      },
      /was interrupted after \d+ bytes/,
    ],
    ['the end is missing', (bytes, response) => response.end(bytes.subarray(0, bytes.length / 2)), /SHA-256/],
    ['a page instead', (_, response) => response.end('<html>log in first</html>'), /SHA-256/],
    [
      'a whole archive that is not the pinned one',
      (_, response) =>
        response.end(
          readFileSync(makeArchive(join(temporaryFolder(), 'y.zip'), cpuVersion(), 'cpu', 'evil')),
        ),
      /libtorch\.zip has the SHA-256 [0-9a-f]{64} instead of [0-9a-f]{64}, so it was not used/,
    ],
  ];
  test.each(attempts)('%s', async (_, respond, expected) => {
    const bytes = archiveBytes();
    const { env, said } = await machine((_request, response) => respond(bytes, response));
    await expect(lib.fetchLibtorch(env, 'cpu')).rejects.toThrow(expected);
    expect(said()).toContain('; trying the torch wheel through pip');
    expect(said()).not.toContain('unpacking');
    expect(stagingLeft(env)).toEqual([]);
    expect(lib.fromCache(env, 'cpu')).toBeNull();
  });
});

describe('pins', () => {
  test('every digest has the right form, and each flavour names the files of its version', () => {
    for (const [flavour, { version, archiveSha256, wheels }] of Object.entries(lib.pins.flavours)) {
      if (archiveSha256 !== null) expect(archiveSha256).toMatch(/^[0-9a-f]{64}$/);
      const names = Object.keys(wheels);
      for (const digest of Object.values(wheels)) expect(digest).toMatch(/^[0-9a-f]{64}$/);
      if (names.length > 0)
        expect(names[0]).toMatch(new RegExp(`^torch-${version}(\\+${flavour})?-cp311-cp311-`));
      expect(new Set([...Object.values(wheels), archiveSha256]).size).toBe(names.length + 1);
    }
    expect(lib.pins.flavours.cpu!.archiveSha256).not.toBeNull();
    expect(Object.keys(lib.pins.flavours.cpu!.wheels)).toHaveLength(1);
    expect(Object.keys(lib.pins.flavours.cu130!.wheels)).toHaveLength(16);
  });

  test('an archive without a pin is not even requested; with the user’s SHA-256 it is used if it matches', async () => {
    const bytes = archiveBytes();
    const { env, requests } = await machine((_, response) => response.end(bytes));
    lib.pins.flavours.cpu!.archiveSha256 = null;
    await expect(lib.fetchLibtorch(env, 'cpu')).rejects.toThrow(
      /the SHA-256 of libtorch-shared-with-deps-.*\+cpu\.zip is not known here, .* ACOER_LIBTORCH_SHA256/,
    );
    expect(requests).toEqual([]);
    const wrong = { ...env, ACOER_LIBTORCH_SHA256: 'a'.repeat(64) };
    await expect(lib.fetchLibtorch(wrong, 'cpu')).rejects.toThrow(/instead of a{64}/);
    const short = { ...env, ACOER_LIBTORCH_SHA256: 'abc' };
    await expect(lib.fetchLibtorch(short, 'cpu')).rejects.toThrow(/must be a SHA-256 of 64/);
    expect((await lib.fetchLibtorch({ ...env, ACOER_LIBTORCH_SHA256: sha256(bytes) }, 'cpu')).flavour).toBe(
      'cpu',
    );
  });

  test('the user’s SHA-256 does not replace a pin', async () => {
    archiveBytes();
    const evil = readFileSync(makeArchive(join(temporaryFolder(), 'y.zip'), cpuVersion(), 'cpu', 'evil'));
    const { env } = await machine((_, response) => response.end(evil));
    const given = { ...env, ACOER_LIBTORCH_SHA256: sha256(evil) };
    await expect(lib.fetchLibtorch(given, 'cpu')).rejects.toThrow(/has the SHA-256/);
  });

  test('a wheel with other bytes under the pinned name, or another wheel, is refused', async () => {
    const wheel = pinnedWheel();
    const evil = makeWheel(temporaryFolder(), cpuVersion(), 'cpu', 'Evil: yes\n');
    const { env } = await machine(notFound, () => pipWith(evil));
    await expect(lib.fetchLibtorch(env, 'cpu')).rejects.toThrow(/torch-.*\.whl has the SHA-256/);
    const other = await machine(notFound, () =>
      pipWith(wheel, makeNvidiaWheel(temporaryFolder(), 'nvidia_x')),
    );
    await expect(lib.fetchLibtorch(other.env, 'cpu')).rejects.toThrow(
      /pip got nvidia_x.*, which is not the pinned wheel/,
    );
  });

  test.each(['cu126', 'cu128'])(
    '%s has no digest, so nothing is begun, and the user is told what to do',
    async (flavour) => {
      const { env, requests, folder } = await machine((_, response) => response.end('anything'));
      const { version } = lib.pins.flavours[flavour]!;
      await expect(lib.fetchLibtorch(env, flavour)).rejects.toThrow(
        `set-up does not fetch libtorch ${version} for ${flavour}, because no SHA-256 of it is known here: run \`python3 -m pip install torch==${version} --index-url https://download.pytorch.org/whl/${flavour}\` and`,
      );
      expect(requests).toEqual([]);
      expect(existsSync(join(folder, 'cache', 'acoer'))).toBe(false);
    },
  );

  test('the table of drivers in docs/install.md is that of the pins', () => {
    const docs = readFileSync(join(__dirname, '..', 'docs', 'install.md'), 'utf8');
    const rows = [
      ...docs.matchAll(/^\| (\d{3}) (?:to (\d{3})|or newer) +\| (\S+), `(cu\d+)` +\| (.*?) *\|/gm),
    ];
    const cuda = Object.entries(lib.pins.flavours).filter(([name]) => name !== 'cpu');
    expect(rows.map(([, from, , version, flavour]) => [flavour, Number(from), version])).toEqual(
      cuda.map(([name, { driverAtLeast, version }]) => [name, driverAtLeast, version]),
    );
    for (const [i, [, , to, , flavour, what]] of rows.entries()) {
      const next = rows[i + 1]?.[1];
      expect(to === undefined ? undefined : Number(to) + 1).toBe(next === undefined ? next : Number(next));
      const { archiveSha256, wheels } = lib.pins.flavours[flavour!]!;
      const count = Object.keys(wheels).length;
      expect([flavour, what]).toEqual([
        flavour,
        archiveSha256 === null && count === 0
          ? 'fetches nothing: no digest is pinned'
          : `fetches it, ${count} wheels by SHA-256`,
      ]);
    }
  });

  test('without pinned wheels pip is not asked', async () => {
    const { env, folder } = await machine(notFound, () => pipWith(pinnedWheel()));
    lib.pins.flavours.cpu!.wheels = {};
    await expect(lib.fetchLibtorch(env, 'cpu')).rejects.toThrow(/no wheels of torch .* for cpu are pinned/);
    expect(existsSync(join(folder, 'bin', 'pip-calls'))).toBe(false);
  });

  test.each([
    ['http://mirror.example/libtorch', /is http:\/\/mirror.*must begin with https:\/\/ or file/],
    ['ftp://mirror.example', /must begin with https/],
    ['mirror', /must begin with https/],
    ['https://me:SECRET@mirror.example', /contains a user name or password .* not shown/],
  ])('ACOER_LIBTORCH_MIRROR=%s is refused', async (mirror, expected) => {
    const { env } = await machine(notFound);
    const fetching = lib.fetchLibtorch({ ...env, ACOER_LIBTORCH_MIRROR: mirror }, 'cpu');
    await expect(fetching).rejects.toThrow(expected);
    await expect(fetching).rejects.not.toThrow(/SECRET/);
  });

  test('a mirror may be a folder', async () => {
    const bytes = archiveBytes();
    const { env, folder } = await machine(notFound);
    const mirror = join(folder, 'mirror', 'cpu');
    mkdirSync(mirror, { recursive: true });
    writeFileSync(join(mirror, `libtorch-shared-with-deps-${cpuVersion()}+cpu.zip`), bytes);
    const found = await lib.fetchLibtorch(
      { ...env, ACOER_LIBTORCH_MIRROR: `file://${join(folder, 'mirror')}` },
      'cpu',
    );
    expect(found.source).toBe('cache (official archive from a folder)');
  });

  test('an entry that points outside is not unpacked, even of a pinned archive', async () => {
    const path = makeArchive(
      join(temporaryFolder(), 'z.zip'),
      cpuVersion(),
      'cpu',
      '',
      'libtorch/lib/../../../../evil',
    );
    const bytes = readFileSync(path);
    lib.pins.flavours.cpu!.archiveSha256 = sha256(bytes);
    const { env } = await machine((_, response) => response.end(bytes));
    await expect(lib.fetchLibtorch(env, 'cpu')).rejects.toThrow(/evil points outside the folder/);
  });

  test('what pip says cannot command the terminal', async () => {
    pinnedWheel();
    const { env, said } = await machine(notFound, () => 'printf "ERROR: \\033[2Jpwn\\n" >&2; exit 1');
    lib.pins.flavours.cpu!.archiveSha256 = null;
    await expect(lib.fetchLibtorch(env, 'cpu')).rejects.toThrow(/pwn/);
    const { say } = await import('../scripts/lib/log.mjs');
    say('pip says \u001b[2J\u009b1m\u202e\r\u0007');
    expect(said()).toContain('pip says \\u{1b}[2J\\u{9b}1m\\u{202e}\\u{d}\\u{7}\n');
  });
});

test('when nothing works it is one sentence with each reason and what to do', async () => {
  archiveBytes();
  const { env } = await machine(notFound);
  await expect(lib.fetchLibtorch(env, 'cpu')).rejects.toThrow(
    /^libtorch .* \(cpu\) could not be fetched: .* answered 404 Not Found; pip cannot get torch==.*: No matching distribution found for .*\. Connect to the internet and run `.*` again, or set LIBTORCH to a folder .*\.$/,
  );
});

test('every Python gets the wheel of the pinned one, by its exact version', async () => {
  const { env, folder } = await machine(notFound, () => pipWith(pinnedWheel()));
  expect((await lib.fetchLibtorch(env, 'cpu')).flavour).toBe('cpu');
  const calls = readFileSync(join(folder, 'bin', 'pip-calls'), 'utf8');
  expect(calls).toMatch(/--no-deps .*--python-version 3\.11 .* torch==[\d.]+\+cpu\n$/);
});

test('an archive of another version is refused', async () => {
  const bytes = archiveBytes('2.12.0');
  const { env } = await machine((_, response) => response.end(bytes));
  await expect(lib.fetchLibtorch(env, 'cpu')).rejects.toThrow(/got libtorch 2\.12\.0 for cpu instead of/);
});

test('a wheel whose file differs from its RECORD is refused', async () => {
  const made = makeWheel(temporaryFolder(), cpuVersion(), 'cpu');
  const rewritten = join(temporaryFolder(), basename(made));
  const rewrite = [
    'import sys, zipfile',
    'src, dst = sys.argv[1:3]',
    "a, b = zipfile.ZipFile(src), zipfile.ZipFile(dst, 'w')",
    "[b.writestr(i, b'changed' if i.filename.endswith('libc10.so') else a.read(i)) for i in a.infolist()]",
    'b.close()',
  ].join('\n');
  execFileSync(realPython, ['-c', rewrite, made, rewritten]);
  const { env } = await machine(notFound, () => pipWith(...pinned('cpu', rewritten)));
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
  const made = temporaryFolder();
  const torch = makeWheel(made, lib.pins.flavours.cu130!.version, 'cu130');
  const nccl = makeNvidiaWheel(made, 'nvidia_nccl_cu13');
  pinned('cu130', torch, nccl);
  const script = `case "$*" in *torch==*) ${pipWith(torch)};; *) ${pipWith(nccl)};; esac`;
  const { env, folder } = await machine(notFound, () => script);
  const found = await lib.fetchLibtorch(env, 'cu130');
  expect(found.flavour).toBe('cu130');
  expect(readdirSync(join(found.root, '..', 'nvidia', 'cu13'))).toEqual(['lib']);
  const calls = readFileSync(join(folder, 'bin', 'pip-calls'), 'utf8')
    .trim()
    .split('\n');
  expect(calls).toHaveLength(2);
  expect(calls.every((call) => call.includes('--no-deps'))).toBe(true);
  expect(calls[1]).toMatch(/ nvidia_nccl_cu13==1\.0$/);
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
