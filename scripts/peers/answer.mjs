// The loop of a peer in Node: a line of JSON in, {"job": name, ...}, and a line of JSON out.
import { createInterface } from 'node:readline';

export async function answer(jobs) {
  console.log(JSON.stringify({ ready: true }));
  for await (const line of createInterface({ input: process.stdin })) {
    const { job, ...given } = JSON.parse(line);
    console.log(JSON.stringify(await jobs[job](given)));
  }
}
