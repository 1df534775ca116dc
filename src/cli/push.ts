/** `acoer push`: what a run trained, to a repository on the Hugging Face hub, and nothing that is private. */
import { type Command, Option } from 'commander';
import { badUsage } from '../base/errors';
import { gigabytes, listed, megabytes } from '../base/text';
import type { Pushed } from '../hub';
import { pushContent, type PushContent, pushContentTo } from '../push';
import { integer } from './command';
import { showDownload } from './download';
import { interruptible } from './interrupt';
import { printJsonLine, printNote, printText } from './output';
import { alignTable } from './table';

interface PushFlags {
  step?: number;
  baseModel?: string;
  private?: boolean;
  public?: boolean;
  revision: string;
  message?: string;
  withRun?: boolean;
  dryRun?: boolean;
  json?: boolean;
}

const sizeText = (bytes: number): string =>
  bytes < 1e5 ? `${bytes} B` : bytes < 1e9 ? megabytes(bytes) : gigabytes(bytes);

const sizes = ({ files }: PushContent) => files.map(({ path, bytes }) => ({ path, bytes }));

function told(content: PushContent): void {
  if (content.leftOut.length > 0) printNote(`not published: ${content.leftOut.join(', ')}`);
}

function pushedText({ url, branch, commit, committed, private: isPrivate }: Pushed): string {
  const place = branch === 'main' ? url : `${url}/tree/${branch}`;
  const seen = isPrivate === null ? '' : isPrivate ? ', private' : ', public';
  return committed.length === 0
    ? `${place}${seen}: nothing to commit, its files are the same (${commit.slice(0, 8)})`
    : `${place}${seen}: ${listed(committed)} (${commit.slice(0, 8)})`;
}

async function pushCommand(path: string, id: string, flags: PushFlags): Promise<void> {
  if (flags.private === true && flags.public === true) {
    throw badUsage('Give one of --private and --public, or neither: a new repository is private.');
  }
  const visibility = flags.public === true ? 'public' : flags.private === true ? 'private' : undefined;
  await interruptible(async (signal) => {
    const target = { id, branch: flags.revision };
    const content = await pushContent(path, {
      ...showDownload(path, signal),
      ...target,
      step: flags.step ?? null,
      baseModel: flags.baseModel ?? null,
      withRun: flags.withRun === true,
    });
    told(content);
    if (flags.dryRun === true) {
      if (flags.json === true) printJsonLine({ id, files: sizes(content), leftOut: content.leftOut });
      else printText(alignTable(sizes(content).map((file) => [file.path, sizeText(file.bytes)])).join('\n'));
      return;
    }
    const pushed = await pushContentTo(
      content,
      { ...target, signal },
      {
        onPhase: printNote,
        ...(visibility && { visibility }),
        ...(flags.message && { message: flags.message }),
      },
    );
    if (flags.json === true)
      printJsonLine({ id, ...pushed, files: sizes(content), leftOut: content.leftOut });
    else printText(pushedText(pushed));
  });
}

export function define(command: Command): void {
  command
    .argument('<run>', 'folder of a run, of its result or of acoer export --merge, or a .gguf file')
    .argument('<repository>', 'where to: ORG/NAME, which is created if need be')
    .option('--step <n>', 'weights of the checkpoint of this step (default: final/)', integer(0))
    .option(
      '--base-model <name>',
      "ORG/NAME of the adapter's base model on the hub, if the run has it from a folder",
    )
    .option('--private', 'create the repository as private, the default; refused if it is there and public')
    .option('--public', 'create the repository as public')
    .addOption(
      new Option('--branch, --revision <branch>', 'branch, which is created if need be').default('main'),
    )
    .option('--message <text>', 'title of the commit (default: what is pushed)')
    .option('--with-run', "add the run's metrics and its settings, without names of files and texts")
    .option('--dry-run', 'list the files that would be pushed, with their sizes, and ask no hub')
    .option('--json', 'print the result as one line of JSON')
    .addHelpText(
      'after',
      `
The token is that of HF_TOKEN or of hf auth login. Pushed are the weights, the
tokenizer and a card; never completions, paths or names of this machine. Files
that the repository has already are not sent, and without a change no commit is
made.
  acoer push RUN ORG/NAME
  acoer push OUT ORG/NAME --public          # after acoer export RUN --merge OUT
  acoer push OUT.gguf ORG/NAME-GGUF`,
    )
    .action(pushCommand);
}
