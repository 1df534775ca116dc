/** Answers to requests that have passed the guard. */
import type { IncomingMessage, ServerResponse } from 'node:http';
import { basename } from 'node:path';
import { promisify } from 'node:util';
import { gzip } from 'node:zlib';
import { badInput, errorCode, errorMessage } from '../base/errors';
import { shownCompletions } from '../report';
import { readCompletions, type RunDirectory } from '../run';
import { HEADERS, type Allowed } from './guard';
import { mayRead } from '../http';
import type { PageFile } from './page';
import type { Runs } from './runs';
import { parsePositions, type Streams } from './streams';
import type { WireTable, WireTableRows } from './wire';

const zipped = promisify(gzip);
const ZIPPED_FROM_BYTES = 2_048;

export interface Served {
  runs: Runs;
  streams: Streams;
  files: ReadonlyMap<string, PageFile>;
}

/** A table has one row per completion of a batch, so this is rarely reached. */
const MOST_ROWS = 512;

type Answer = (asked: Allowed, served: Served) => Promise<unknown>;

const integerOf = (text: string | null): number | null =>
  text !== null && /^\d{1,9}$/.test(text) ? Number(text) : null;

async function openedRun(asked: Allowed, { runs, streams }: Served) {
  await streams.fresh();
  return runs.open(asked.query.get('run') ?? '');
}

/** @throws BAD_INPUT if there is no such table, or it is damaged */
async function tableRows(run: RunDirectory, { kind, step }: WireTable): Promise<WireTableRows> {
  const path = kind === 'training' ? run.completions(step) : run.answers(step, kind);
  if (!(await mayRead(run.path, path))) {
    throw badInput(`${path} is a link that leads out of the run; it is not read.`);
  }
  const rows = await readCompletions(path);
  const shown = [{ run: 0, from: kind, rows: rows.slice(0, MOST_ROWS) }];
  const texts = [{ name: basename(run.path), promptTemplate: run.promptTemplate() }];
  return { total: rows.length, ...shownCompletions(shown, texts) };
}

/** By the last part of the address. null: there is no such run, or the question makes no sense. */
const ANSWERS: Readonly<Record<string, Answer>> = {
  runs: async (_, { runs, streams }) => {
    await streams.fresh();
    return runs.ids.map((id) => runs.entry(id)!.entry);
  },
  series: async (asked, served) => {
    const run = await openedRun(asked, served);
    if (run === null) return null;
    const [from, to] = ['from', 'to'].map((name) => integerOf(asked.query.get(name)));
    if (from === null || to === null) return run.series.series();
    return from! <= to! ? run.series.series({ from: from!, to: to! }) : null;
  },
  details: async (asked, served) => (await openedRun(asked, served))?.details ?? null,
  table: async (asked, served) => {
    const opened = await openedRun(asked, served);
    const [kind, step] = [asked.query.get('kind'), integerOf(asked.query.get('step'))];
    const table = opened?.details.tables.find((one) => one.kind === kind && one.step === step);
    return opened === null || table === undefined ? null : tableRows(opened.run, table);
  },
};

export function refuse(response: ServerResponse, status: number): void {
  const texts: Readonly<Record<number, string>> = {
    400: 'bad request',
    403: 'forbidden',
    404: 'not found',
    405: 'method not allowed',
    503: 'too many pages are open',
  };
  const allow = status === 405 ? { Allow: 'GET, HEAD' } : {};
  response.writeHead(status, {
    ...HEADERS,
    ...allow,
    'Content-Type': 'text/plain; charset=utf-8',
    Connection: 'close',
  });
  response.end(`${texts[status] ?? 'refused'}\n`);
}

async function send(
  request: IncomingMessage,
  response: ServerResponse,
  status: number,
  { type, content }: PageFile,
): Promise<void> {
  const wanted = /\bgzip\b/.test(String(request.headers['accept-encoding'] ?? ''));
  const packed = wanted && content.length >= ZIPPED_FROM_BYTES;
  const body = packed ? await zipped(content, { level: 4 }) : content;
  response.writeHead(status, {
    ...HEADERS,
    'Content-Type': type,
    'Content-Length': body.length,
    ...(packed && { 'Content-Encoding': 'gzip' }),
  });
  response.end(request.method === 'HEAD' ? undefined : body);
}

const json = (value: unknown): PageFile => {
  return { type: 'application/json; charset=utf-8', content: Buffer.from(JSON.stringify(value)) };
};

function stream(request: IncomingMessage, response: ServerResponse, asked: Allowed, served: Served): void {
  // A browser that connects again by itself says where it was.
  const told = request.headers['last-event-id'];
  const positions = parsePositions(typeof told === 'string' ? told : (asked.query.get('at') ?? ''));
  if (positions === null) return refuse(response, 404);
  if (served.streams.full) return refuse(response, 503);
  response.writeHead(200, { ...HEADERS, 'Content-Type': 'text/event-stream; charset=utf-8' });
  if (request.method === 'HEAD') return void response.end();
  request.socket.setNoDelay(true);
  // How long a browser waits before it connects again.
  response.write('retry: 2000\n\n');
  served.streams.add(response, positions);
}

/** Answers a request. @throws nothing */
export async function answer(
  request: IncomingMessage,
  response: ServerResponse,
  asked: Allowed,
  served: Served,
): Promise<void> {
  const { path } = asked;
  if (path === null) {
    response.writeHead(308, { ...HEADERS, Location: `${request.url}/` });
    return void response.end();
  }
  const file = served.files.get(path);
  if (file !== undefined) return send(request, response, 200, file);
  if (path === 'events') return stream(request, response, asked, served);
  const known = Object.hasOwn(ANSWERS, path) ? ANSWERS[path] : undefined;
  if (known === undefined) return refuse(response, 404);
  try {
    const found = await known(asked, served);
    if (found === null) refuse(response, 404);
    else await send(request, response, 200, json(found));
  } catch (error) {
    const status = errorCode(error) === 'BAD_INPUT' ? 422 : 500;
    await send(request, response, status, json({ problem: errorMessage(error) }));
  }
}
