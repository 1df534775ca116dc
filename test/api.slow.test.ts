/** The library's promise: what the package's entries export is what docs/api.md lists, and its examples work. */
import { execFileSync } from 'node:child_process';
import { mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { basename, join } from 'node:path';
import { pathToFileURL } from 'node:url';
import ts from 'typescript';
import { builtCli, ROOT } from './helpers/cli';

const MOST_NAMES = 102;

const read = (path: string) => readFileSync(join(ROOT, path), 'utf8');
const page = read('docs/api.md');
const isSource = ({ fileName }: ts.SourceFile): boolean =>
  [join(ROOT, 'src'), join(ROOT, 'packages')].some((folder) => fileName.startsWith(folder));

interface Entry {
  /** As a program imports it: `acoer`, `acoer/verify`. */
  name: string;
  source: string;
  compiled: string;
}

const { exports: declared } = JSON.parse(read('package.json')) as {
  exports: Record<string, string | { types: string; default: string }>;
};
const entries = Object.entries(declared).flatMap(([path, target]): Entry[] => {
  if (typeof target === 'string') return [];
  const source = target.types.replace(/^\.\/(packages\/\w+\/)?dist\//, '$1src/').replace('.d.ts', '.ts');
  return [{ name: join('acoer', path), source, compiled: target.default }];
});

/** Items of the page's lists by entry: a line "From `acoer` ..." names the entries of the list below it. */
function documented(): Map<string, Map<string, string>> {
  const found = new Map(entries.map(({ name }) => [name, new Map<string, string>()]));
  let from: string[] = [];
  for (const line of page.split('\n')) {
    if (line.startsWith('#')) from = [];
    if (line.startsWith('From `')) from = [...line.matchAll(/`([^`]+)`/g)].map(([, name]) => name!);
    const [, name, meaning] = /^- `(\w+)`: (.+)$/.exec(line) ?? [];
    if (name !== undefined) for (const entry of from) found.get(entry)!.set(name, meaning!);
  }
  return found;
}

/** The examples of a page that import the package. */
const examplesOf = (text: string): string[] =>
  [...text.matchAll(/^```ts\n([^]*?)^```$/gm)].map(([, code]) => code!).filter((code) => /'acoer/.test(code));

const pages = ['README.md', ...readdirSync(join(ROOT, 'docs')).map((name) => `docs/${name}`)];
const examples = new Map(
  pages
    .filter((path) => path.endsWith('.md'))
    .flatMap((path) =>
      examplesOf(read(path)).map((code, i): [string, string] => [
        join(ROOT, 'test', `${basename(path, '.md')}-${i + 1}.mts`),
        code,
      ]),
    ),
);

function compile(): ts.Program {
  const { config } = ts.readConfigFile(join(ROOT, 'tsconfig.json'), (path) => ts.sys.readFile(path)) as {
    config: unknown;
  };
  const { options } = ts.parseJsonConfigFileContent(config, ts.sys, ROOT);
  const paths = Object.fromEntries(entries.map(({ name, source }) => [name, [join(ROOT, source)]]));
  const asked = { ...options, paths, types: ['node'], noUnusedLocals: false, noUnusedParameters: false };
  const disk = ts.createCompilerHost(asked);
  const host: ts.CompilerHost = {
    ...disk,
    fileExists: (path) => examples.has(path) || disk.fileExists(path),
    readFile: (path) => examples.get(path) ?? disk.readFile(path),
    getSourceFile: (path, version, ...more) => {
      const code = examples.get(path);
      if (code === undefined) return disk.getSourceFile(path, version, ...more);
      return ts.createSourceFile(path, code, version);
    },
  };
  const roots = entries.map(({ source }) => join(ROOT, source));
  return ts.createProgram([...roots, ...examples.keys()], asked, host);
}

const program = compile();
const checker = program.getTypeChecker();

const exportsOf = ({ source }: Entry): ts.Symbol[] =>
  checker.getExportsOfModule(checker.getSymbolAtLocation(program.getSourceFile(join(ROOT, source))!)!);

const behindAlias = (symbol: ts.Symbol): ts.Symbol =>
  symbol.flags & ts.SymbolFlags.Alias ? checker.getAliasedSymbol(symbol) : symbol;

/** Whether a type has a name of its own in src, so that a program cannot write it down without that name. */
const isOurs = (symbol: ts.Symbol | undefined): symbol is ts.Symbol =>
  symbol !== undefined &&
  (symbol.flags & (ts.SymbolFlags.Interface | ts.SymbolFlags.Class)) !== 0 &&
  (symbol.declarations ?? []).some((node) => isSource(node.getSourceFile()));

/** Visits a type and all that it is made of. `enter` says whether to look into an interface or class of ours. */
function visit(type: ts.Type, enter: (symbol: ts.Symbol) => boolean, seen = new Set<ts.Type>()): void {
  if (seen.has(type)) return;
  seen.add(type);
  const into = (other: ts.Type) => visit(other, enter, seen);
  const members = type.isUnionOrIntersection() ? type.types : [];
  [...members, ...(type.aliasTypeArguments ?? [])].forEach(into);
  if (members.length > 0 || !(type.flags & ts.TypeFlags.Object)) return;
  if ((type as ts.ObjectType).objectFlags & ts.ObjectFlags.Reference) {
    checker.getTypeArguments(type as ts.TypeReference).forEach(into);
  }
  const symbol = type.getSymbol();
  if (isOurs(symbol) ? !enter(symbol) : isOutside(symbol)) return;
  const open = checker.getPropertiesOfType(type).filter((property) => !isHidden(property));
  open.forEach((property) => into(checker.getTypeOfSymbol(property)));
  for (const info of checker.getIndexInfosOfType(type)) into(info.type);
  for (const signature of type.getCallSignatures()) visitSignature(signature, into);
}

const isHidden = ({ valueDeclaration }: ts.Symbol): boolean =>
  valueDeclaration !== undefined &&
  (ts.getCombinedModifierFlags(valueDeclaration) & ts.ModifierFlags.NonPublicAccessibilityModifier) !== 0;

/** Declared by the language's library or by a dependency: it has its own name, or is made of what `visit` sees. */
const isOutside = (symbol: ts.Symbol | undefined): boolean =>
  (symbol?.declarations ?? []).some((node) => !isSource(node.getSourceFile()) && !ts.isMappedTypeNode(node));

function visitSignature(signature: ts.Signature, into: (type: ts.Type) => void): void {
  for (const parameter of signature.getParameters()) into(checker.getTypeOfSymbol(parameter));
  into(signature.getReturnType());
}

test('the entries export what the page lists', () => {
  const exported = entries.map((entry) => [
    entry.name,
    exportsOf(entry)
      .map(({ name }) => name)
      .sort(),
  ]);
  const listed = [...documented()].map(([entry, rows]) => [entry, [...rows.keys()].sort()]);
  expect(Object.fromEntries(exported)).toEqual(Object.fromEntries(listed));
});

test(`there are at most ${MOST_NAMES} names, and each has its line`, () => {
  const lines = [...documented().values()].flatMap((rows) => [...rows.values()]);
  expect(lines.length).toBeGreaterThan(0);
  expect(lines.length).toBeLessThanOrEqual(MOST_NAMES);
  expect(lines.filter((line) => line.length < 10)).toEqual([]);
});

test('a program can name every type that an exported function takes or gives', () => {
  const symbols = entries.flatMap(exportsOf).map(behindAlias);
  const named = new Set<ts.Symbol>();
  const enter = (symbol: ts.Symbol) => {
    const fresh = !named.has(symbol);
    named.add(symbol);
    return fresh;
  };
  for (const symbol of symbols) {
    if (symbol.flags & ts.SymbolFlags.Type) visit(checker.getDeclaredTypeOfSymbol(symbol), enter);
  }
  const nameless = symbols.flatMap((symbol) => {
    const type = checker.getTypeOfSymbol(symbol);
    if (!(symbol.flags & ts.SymbolFlags.Value) || type.getCallSignatures().length === 0) return [];
    const missing = new Set<string>();
    visit(type, (met) => {
      if (!named.has(met)) missing.add(`${symbol.name}: ${met.name}`);
      return false;
    });
    return [...missing];
  });
  expect(named.size).toBeGreaterThan(20);
  expect(nameless).toEqual([]);
});

test('the examples of README and docs type-check', () => {
  const problems = [...examples.keys()].flatMap((path) => {
    const file = program.getSourceFile(path)!;
    const found = [...program.getSyntacticDiagnostics(file), ...program.getSemanticDiagnostics(file)];
    return found.map(
      ({ messageText }) => `${basename(path)}: ${ts.flattenDiagnosticMessageText(messageText, ' ')}`,
    );
  });
  expect(examples.size).toBeGreaterThan(10);
  expect(problems).toEqual([]);
});

test('the examples of the page run', () => {
  builtCli();
  const folder = mkdtempSync(join(tmpdir(), 'acoer-api-'));
  try {
    const names = examplesOf(page).map((code, i) => {
      const linked = code.replace(/from '(acoer[^']*)'/g, (_, name: string) => {
        const { compiled } = entries.find((entry) => entry.name === name)!;
        return `from '${pathToFileURL(join(ROOT, compiled)).href}'`;
      });
      const options = { module: ts.ModuleKind.ESNext, target: ts.ScriptTarget.ES2022 };
      const { outputText } = ts.transpileModule(linked, { compilerOptions: options });
      writeFileSync(join(folder, `${i}.mjs`), outputText);
      return `./${i}.mjs`;
    });
    const main = names.map((name) => `await import('${name}');\nconsole.log('ran ${name}');\n`).join('');
    writeFileSync(join(folder, 'main.mjs'), main);
    const where = { cwd: folder, encoding: 'utf8', stdio: 'pipe' } as const;
    const printed = execFileSync(process.execPath, ['main.mjs'], where);
    expect(printed.match(/^ran /gm)).toHaveLength(names.length);
  } finally {
    rmSync(folder, { recursive: true, force: true });
  }
});
