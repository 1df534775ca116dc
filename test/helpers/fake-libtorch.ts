/**
 * Folders, archives and wheels that look like libtorch to set-up, and a Python with a fake pip. No network.
 */
import { execFileSync } from 'node:child_process';
import { chmodSync, mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';

export const realPython = execFileSync('python3', ['-c', 'import sys; print(sys.executable)'], {
  encoding: 'utf8',
}).trim();

const temporary: string[] = [];

/** A folder that is removed after the test file. */
export function temporaryFolder(): string {
  const folder = mkdtempSync(join(tmpdir(), 'acoer-setup-test-'));
  temporary.push(folder);
  return folder;
}

afterAll(() => {
  for (const folder of temporary) rmSync(folder, { recursive: true, force: true });
});

export function writeTree(root: string, files: Record<string, string>): string {
  for (const [name, text] of Object.entries(files)) {
    const path = join(root, name);
    mkdirSync(dirname(path), { recursive: true });
    writeFileSync(path, text);
  }
  return root;
}

/** A shell script called `name` in `folder`. */
export function fakeProgram(folder: string, name: string, script: string): string {
  const path = join(folder, name);
  mkdirSync(folder, { recursive: true });
  writeFileSync(path, `#!/bin/sh\n${script}\n`);
  chmodSync(path, 0o755);
  return path;
}

/** The files that set-up checks, with `include` and `lib` at the top. */
export function libtorchFiles(version: string, label: Record<string, string> = {}): Record<string, string> {
  const [major, minor, patch] = version.split('.');
  return {
    'lib/libtorch_cpu.so': 'not a library',
    'lib/libc10.so': 'not a library',
    'include/ATen/ATen.h': '',
    'include/torch/headeronly/version.h': `#define TORCH_VERSION_MAJOR ${major}\n#define TORCH_VERSION_MINOR ${minor}\n#define TORCH_VERSION_PATCH ${patch}\n#define TORCH_VERSION "${version}"\n`,
    'include/torch/csrc/api/include/torch/version.h': '#include <torch/headeronly/version.h>\n',
    ...label,
  };
}

export const archiveLabel = (version: string, flavour: string): Record<string, string> => ({
  'build-version': `${version}+${flavour}\n`,
});

export const wheelLabel = (version: string, flavour: string): Record<string, string> => ({
  'version.py': `__version__ = '${version}+${flavour}'\ncuda: Optional[str] = None\n`,
});

function prefixed(files: Record<string, string>, prefix: string): Record<string, string> {
  return Object.fromEntries(Object.entries(files).map(([name, text]) => [`${prefix}/${name}`, text]));
}

const ZIP = `
import base64, hashlib, json, sys, zipfile
path, info = sys.argv[1], sys.argv[2]
files = json.load(sys.stdin)
with zipfile.ZipFile(path, 'w', zipfile.ZIP_DEFLATED) as z:
    rows = []
    for name, text in files.items():
        z.writestr(name, text)
        digest = base64.urlsafe_b64encode(hashlib.sha256(text.encode()).digest()).rstrip(b'=').decode()
        rows.append(f'{name},sha256={digest},{len(text)}')
    if info:
        record = f'{info}/RECORD'
        z.writestr(record, '\\n'.join(rows + [record + ',,']) + '\\n')
`;

function zip(path: string, files: Record<string, string>, info = ''): string {
  mkdirSync(dirname(path), { recursive: true });
  execFileSync(realPython, ['-c', ZIP, path, info], { input: JSON.stringify(files) });
  return path;
}

/** An archive as the official server would send it; `other` and `extra` make a different one. */
export function makeArchive(path: string, version: string, flavour: string, other = '', extra = ''): string {
  const files = prefixed(libtorchFiles(version, archiveLabel(version, flavour)), 'libtorch');
  return zip(path, {
    ...files,
    'libtorch/lib/libtorch_python.so': 'unwanted',
    'libtorch/share/x': `unwanted${other}`,
    ...(extra !== '' && { [extra]: 'x' }),
  });
}

/** A wheel as pip would download it; `metadata` are additional lines of METADATA. */
export function makeWheel(folder: string, version: string, flavour: string, metadata = ''): string {
  const info = `torch-${version}+${flavour}.dist-info`;
  const files = prefixed(libtorchFiles(version, wheelLabel(version, flavour)), 'torch');
  const path = join(folder, `torch-${version}+${flavour}-cp311-cp311-manylinux_2_28_x86_64.whl`);
  return zip(
    path,
    { ...files, 'torch/nn/x.py': 'unwanted', [`${info}/METADATA`]: `Name: torch\n${metadata}` },
    info,
  );
}

/** A wheel of one of NVIDIA's libraries. */
export function makeNvidiaWheel(folder: string, name: string): string {
  const info = `${name}-1.0.dist-info`;
  const path = join(folder, `${name}-1.0-py3-none-manylinux_2_27_x86_64.whl`);
  return zip(path, { 'nvidia/cu13/lib/libfake.so': 'x', 'nvidia/cu13/bin/tool': 'unwanted' }, info);
}

/**
 * A python3 whose `pip download` runs `script` with `$dest` set to the folder of `-d`; the rest is the real
 * one.
 */
export function fakePython(folder: string, script: string): string {
  const body = `
if [ "$1 $2 $3" = "-m pip --version" ]; then echo "pip 99.0 from nowhere"; exit 0; fi
if [ "$1 $2 $3" = "-m pip download" ]; then
  echo "$@" >> "${join(folder, 'pip-calls')}"
  prev=; for a in "$@"; do [ "$prev" = -d ] && dest=$a; prev=$a; done
  last=$a
  ${script}
  exit $?
fi
exec "${realPython}" "$@"`;
  return fakeProgram(folder, 'python3', body);
}
