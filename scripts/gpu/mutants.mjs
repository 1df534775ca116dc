#!/usr/bin/env node
/**
 * A test of the tests of the CUDA path: plants one bug after another into a copy of its sources, builds acoer-check and
 * shows which tests fail. No GPU is needed; kernels and graphs are emulated (docs/gpu.md).
 *
 *   node scripts/gpu/mutants.mjs [--all] [--list] [NAME...]
 *
 * NAME: only these mutants. For each one the tests run that should find it, with `--all` every gpu_kernels test. Exit
 * code: 0 if every mutant was found, 1 if one was not (or if the tests fail without a mutant), 2 if something is
 * missing. Needs cmake and a C++ compiler; the first build takes minutes.
 */
import { spawnSync } from 'node:child_process';
import { cpSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { availableParallelism, tmpdir } from 'node:os';
import { join, relative } from 'node:path';
import { packageRoot } from '../lib/paths.mjs';
import { scriptArguments } from '../lib/arguments.mjs';

/** `from` occurs once in `core/<file>` and becomes `to`; `tests` should fail. */
const MUTANTS = [
  {
    name: 'stale-graph',
    what: 'a graph is taken for the same rows with more blocks of attention',
    file: 'generate/gpu_steps.cpp',
    from: 'graphs_.try_emplace(layout);',
    to: 'graphs_.try_emplace(Layout{layout.spans, 1});',
    tests: ['gpu_kernels_graphs_equal_steps'],
  },
  {
    name: 'stale-buffer',
    what: 'prompts use, and replace, the scratch whose addresses graphs hold',
    file: 'generate/decode.cpp',
    from: [
      [
        'makeRoom(prompts_, rows.count());\n  forEachWeights',
        'makeRoom(steps_, rows.count());\n  forEachWeights',
      ],
      [
        'parts.push_back(makePart(rows.spans, cache, weights, from, to, prompts_, 0));',
        'parts.push_back(makePart(rows.spans, cache, weights, from, to, steps_, 0));',
      ],
    ],
    tests: ['gpu_kernels_graphs_survive_longer_prompts'],
  },
  {
    name: 'off-by-one-bucket',
    what: 'a layout has a block of attention too few for the last step of a look',
    file: 'generate/gpu_steps.cpp',
    from: 'roundedUp(cuda::attentionSplits(longest))',
    to: 'roundedUp(cuda::attentionSplits(longest - 1))',
    tests: ['gpu_kernels_decode_ends_at_a_block'],
  },
  {
    name: 'no-reset',
    what: 'the place in the history is not reset where the device begins anew',
    file: 'generate/gpu_steps.cpp',
    from: '  historyPlace_ = 0;\n',
    to: '',
    tests: ['gpu_kernels_batch_does_not_show'],
  },
  {
    name: 'second-policy-stride',
    what: 'rows of the second weights write their logits over those of the first',
    file: 'generate/decode.cpp',
    from: 'logits_NV_.narrow(0, first + part.begin, part.count())',
    to: 'logits_NV_.narrow(0, first, part.count())',
    tests: ['gpu_kernels_graphs_equal_steps'],
  },
  {
    name: 'adapter-of-all-rows',
    what: "the activation's adapter is that of a part's first rows for all of them",
    file: 'generate/decode.cpp',
    from: 'span.begin > part.begin || span.end < part.end',
    to: 'span.begin > part.begin',
    tests: ['gpu_kernels_decode_like_tensor_ops'],
  },
  {
    name: 'scratch-moves',
    what: 'the plain weights of quantised matrices lie in memory that the next matrix replaces',
    file: 'matrix/gpu_quantised.cpp',
    from: '!plain_.defined() || plain_.numel() < numbers_',
    to: '!plain_.defined() || plain_.numel() >= 0',
    tests: ['gpu_kernels_quantised_share_one_scratch'],
  },
  {
    name: 'bias-twice',
    what: 'a product from the codes is added to what the bias replaces',
    file: 'matrix/gpu_quantised.cpp',
    from: '.add = into.add && !bias_O.defined()',
    to: '.add = into.add || bias_O.defined()',
    tests: ['gpu_kernels_quantised_products'],
  },
  {
    name: 'slot-reuse',
    what: 'a sequence that takes the slot of one that ended goes on with its state',
    file: 'generate/gpu_steps.cpp',
    from: 'if (rows != expected_ ||',
    to: 'if (rows.size() != expected_.size() ||',
    tests: ['gpu_kernels_batch_does_not_show'],
  },
  {
    name: 'seed-reuse',
    what: 'the random counter begins anew with every upload',
    file: 'generate/gpu_steps.cpp',
    from: 'samplers[n].position = static_cast<uint64_t>(row.request->firstToken + row.drawn);',
    to: 'samplers[n].position = 0;',
    tests: ['gpu_kernels_batch_does_not_show'],
  },
  {
    name: 'pending-error',
    what: "a failed call leaves the runtime's error for libtorch",
    file: 'kernels/gpu/kernels.cpp',
    from: '  if (getLastError != nullptr) getLastError();\n',
    to: '',
    tests: ['gpu_kernels_leave_no_error_behind'],
  },
  {
    name: 'wrong-stream',
    what: 'a kernel of a step goes to the default stream',
    file: 'generate/gpu_steps.cpp',
    from: '.capacity = kStepsPerLook},\n      stream);',
    to: '.capacity = kStepsPerLook},\n      nullptr);',
    tests: ['gpu_kernels_cancel_between_looks'],
  },
  {
    name: 'shared-prompt-position',
    what: 'a sample gets a position too few of its prompt',
    file: 'generate/admission.cpp',
    from: 'cache_.copySlot(*group_.cache, prompt, shared + begin, page, count);',
    to: 'cache_.copySlot(*group_.cache, prompt, shared + begin, page, count - 1);',
    tests: ['gpu_kernels_graphs_survive_longer_prompts'],
  },
  {
    name: 'short-scratch',
    what: 'the end of a look lies beyond the scratch that was reserved for attention',
    file: 'generate/gpu_steps.cpp',
    from: 'std::min(rows[n].position + steps, longest_)',
    to: 'rows[n].position + steps',
    tests: ['gpu_kernels_decode_ends_at_a_block'],
  },
  {
    name: 'unbounded-graphs',
    what: 'graphs are never forgotten',
    file: 'generate/gpu_steps.cpp',
    from: 'if (graphs_.size() <= kMostGraphs) return;',
    to: 'return;',
    tests: ['gpu_kernels_graphs_are_bounded'],
  },
  {
    name: 'bundle-of-two',
    what: 'rows of several sequences attend over the pages of the first',
    file: 'generate/gpu_steps.cpp',
    from: 'rows[n].follows(rows[n - 1]) &&',
    to: '',
    tests: ['gpu_kernels_speculation'],
  },
];

const { values, positionals } = scriptArguments(import.meta.url, {
  allowPositionals: true,
  options: { all: { type: 'boolean', default: false }, list: { type: 'boolean', default: false } },
});

/** @param {string} message @returns {never} */
function fail(message) {
  process.stderr.write(`mutants: ${message}\n`);
  process.exit(2);
}

const unknown = positionals.find((name) => MUTANTS.every((mutant) => mutant.name !== name));
if (unknown !== undefined) fail(`there is no mutant ${unknown}; see --list`);
const chosen = MUTANTS.filter(({ name }) => positionals.length === 0 || positionals.includes(name));
/** The file's text with the mutant in it. */
function planted(text, { name, from, to }) {
  const changes = typeof from === 'string' ? [[from, to]] : from;
  return changes.reduce((changed, [before, after]) => {
    if (changed.split(before).length !== 2) fail(`${name}: its place in the source has changed`);
    return changed.replace(before, () => after);
  }, text);
}

if (values.list) {
  for (const mutant of MUTANTS) {
    planted(readFileSync(join(packageRoot, 'native', 'core', mutant.file), 'utf8'), mutant);
    console.log(`${mutant.name.padEnd(24)}${mutant.what}`);
  }
  process.exit(0);
}

const run = (program, words) => {
  const { error, status, stdout, stderr } = spawnSync(program, words, {
    encoding: 'utf8',
    maxBuffer: 2 ** 26,
    env: { ...process.env, OMP_WAIT_POLICY: 'passive' },
  });
  if (error) fail(`${program} is missing`);
  return { status, output: `${stdout}${stderr}` };
};

// Laid out as in the repository, so that ccache knows its files.
const copy = join(tmpdir(), `acoer-mutants-${process.getuid?.() ?? 0}`);
const native = join(copy, 'native');
const build = join(native, 'build-check');
mkdirSync(native, { recursive: true });
cpSync(join(packageRoot, 'native'), native, {
  recursive: true,
  preserveTimestamps: true,
  filter: (path) => !relative(join(packageRoot, 'native'), path).startsWith('build'),
});
cpSync(join(packageRoot, 'assets', 'kernels'), join(copy, 'assets', 'kernels'), {
  recursive: true,
  preserveTimestamps: true,
});
const libtorch = run('node', [join(packageRoot, 'scripts', 'setup.mjs'), '--print']);
if (libtorch.status !== 0) fail('no libtorch; run node scripts/setup.mjs');
const configured = run('cmake', [
  ...['-S', native, '-B', build, `-DLIBTORCH=${process.env.LIBTORCH ?? libtorch.output.trim()}`],
  ...['-DACOER_ADDON=OFF', '-DACOER_CHECK=ON'],
]);
if (configured.status !== 0) fail(configured.output);

/** Builds acoer-check and runs tests: the names of those that failed, or null if it does not compile. */
function failures(tests) {
  const jobs = process.env.CMAKE_BUILD_PARALLEL_LEVEL ?? String(availableParallelism());
  const built = run('cmake', ['--build', build, '--target', 'acoer-check', '--parallel', jobs]);
  if (built.status !== 0) {
    process.stderr.write(built.output);
    return null;
  }
  const { output, status } = run(join(build, 'acoer-check'), tests);
  const failed = [...output.matchAll(/^FAIL (\w+) \(\d+ ms\): (.*)$/gm)].map(([, name, why]) => ({
    name,
    why,
  }));
  if (status !== 0 && failed.length === 0) failed.push({ name: tests.join(), why: 'the program ended' });
  return failed;
}

const testsOf = (mutants) =>
  values.all ? ['gpu_kernels_'] : [...new Set(mutants.flatMap(({ tests }) => tests))];
const first = failures(testsOf(chosen));
if (first === null || first.length > 0) {
  for (const { name, why } of first ?? []) console.log(`without a mutant ${name} fails: ${why}`);
  process.exit(1);
}
console.log(`without a mutant all pass: ${testsOf(chosen).join(', ')}`);
let survived = 0;
for (const mutant of chosen) {
  const file = join(native, 'core', mutant.file);
  const text = readFileSync(file, 'utf8');
  let found;
  try {
    writeFileSync(file, planted(text, mutant));
    found = failures(testsOf([mutant]));
  } finally {
    writeFileSync(file, text);
  }
  if (found === null || found.length === 0) survived += 1;
  const said = found === null ? 'DOES NOT COMPILE' : found.length === 0 ? 'NOT FOUND' : 'found';
  console.log(`${said} ${mutant.name}: ${mutant.what}`);
  for (const { name, why } of found ?? []) console.log(`    ${name}: ${why}`);
}
console.log(`${chosen.length - survived} of ${chosen.length} mutants found`);
process.exitCode = survived > 0 ? 1 : 0;
