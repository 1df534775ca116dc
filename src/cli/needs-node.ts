/** The first import of the command line: on a Node that is too old it ends with one sentence. */
import { oldNode } from '../base/node-version';

const problem = oldNode(process.versions.node);
if (problem !== null) {
  process.stderr.write(`acoer: ${problem}\n`);
  process.exit(1);
}
