/** The server of `acoer watch`: one folder, one page, for the person who started it. */
import { closeServer, hostInAddress, listenSomewhere, LOOPBACK, makeServer } from '../http';
import { check, makeGuard } from './guard';
import { pageFiles } from './page';
import { answer, refuse, type Served } from './routes';
import { Runs } from './runs';
import { Streams } from './streams';

export const DEFAULT_PORT = 8123;

const LIMITS = {
  headerBytes: 8 * 1024,
  headersMs: 10_000,
  requestMs: 15_000,
  keepAliveMs: 5_000,
  checkMs: 5_000,
  connections: 128,
  /** How many of these may not have shown the token. */
  strangers: 48,
  /** For the last events to leave. */
  goodbyeMs: 200,
} as const;

export interface WatchOptions {
  /** A run, or a folder of runs. */
  path: string;
  /** Default: 8123, or the next one that is free. 0: any that is free. */
  port?: number;
  /** Name or address of the interface to listen on. Default: 127.0.0.1, which no other machine reaches. */
  host?: string;
}

export interface WatchServer {
  /** The page's address, including its token. */
  address: string;
  port: number;
  /** Sends the last changes to the open pages, and ends. */
  close(): Promise<void>;
}

/**
 * Serves the live page of a run or of a folder of runs until it is closed.
 *
 * @throws BAD_INPUT if there is no such folder; BAD_CONFIG if the port or host cannot be listened on
 */
export async function startWatch({ path, port, host }: WatchOptions): Promise<WatchServer> {
  const runs = new Runs(path);
  const streams = new Streams(runs);
  const guard = makeGuard(host ?? null);
  const served: Served = { runs, streams, files: pageFiles() };
  const server = makeServer(LIMITS, (request, response, trust) => {
    const asked = check(request, guard);
    if (typeof asked === 'number') return refuse(response, asked);
    trust();
    answer(request, response, asked, served).catch(() => response.destroy());
  });
  const interfaceName = host ?? LOOPBACK;
  const used = await listenSomewhere(server, interfaceName, { given: port, first: DEFAULT_PORT });
  return {
    address: `http://${hostInAddress(interfaceName)}:${used}/${guard.token}/`,
    port: used,
    close: async () => {
      await streams.close();
      await closeServer(server, LIMITS.goodbyeMs);
    },
  };
}
