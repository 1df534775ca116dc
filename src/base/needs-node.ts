/** The first import of the library: on a Node that is too old, importing it throws one sentence. */
import { oldNode } from './node-version';

const problem = oldNode(process.versions.node);
if (problem !== null) {
  const error = new Error(`acoer: ${problem}`);
  // Without a trace, of which the files are no help.
  error.stack = error.message;
  throw Object.assign(error, { code: 'SETUP' });
}
