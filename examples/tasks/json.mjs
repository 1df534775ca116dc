// Following a JSON format: right if the answer is JSON with the row's fields; the reward also counts how many
// of the values are the row's.
//
//   node examples/tasks/json.mjs [MODEL]          (in a clone, after `npm ci`; elsewhere import from 'acoer')
import { train } from '../../dist/index.js';
import { setting } from './scripted.mjs';

const dataset = [
  {
    problem: 'Ada Lovelace was born in London in 1815.',
    fields: { name: 'Ada Lovelace', city: 'London', year: 1815 },
  },
];

/** The object in an answer, or null. */
function parsed(answer) {
  try {
    return Object(JSON.parse(answer));
  } catch {
    return null;
  }
}

const { settings, options } = setting([
  '<think>\nfields\n</think>\n{"name": "Ada Lovelace", "city": "London", "year": 1815}',
  '<think>\nfields\n</think>\n{"name": "Ada Lovelace", "city": "London", "year": "1815"}',
  '<think>\nfields\n</think>\n{"name": "Ada Lovelace"}',
  '<think>\nfields\n</think>\nSure! {"name": "Ada Lovelace", "city": "London", "year": 1815}',
]);
const run = await train(
  {
    promptTemplate: 'Give name, city and year as a JSON object, and nothing else.\n\n{problem}',
    ...settings,
  },
  {
    dataset,
    judge({ answer }, { row }) {
      const names = Object.keys(parsed(answer) ?? {}).sort();
      return names.join() === Object.keys(row.fields).sort().join();
    },
    reward({ correct, answer, problem }) {
      const fields = Object.entries(problem.row.fields);
      const found = parsed(answer) ?? {};
      return Number(correct) + fields.filter(([name, value]) => found[name] === value).length / fields.length;
    },
    ...options,
  },
);
await run.result();
