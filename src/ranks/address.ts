/** Which address of this machine the other ranks reach it at. */
import { createSocket } from 'node:dgram';
import { lookup } from 'node:dns/promises';
import { isIP } from 'node:net';
import { networkInterfaces } from 'node:os';
import { AcoerError, errorMessage } from '../base/errors';
import type { Launch } from './launch';

const refused = (message: string): AcoerError => new AcoerError('BAD_ARGUMENT', message);

export const isLoopback = (address: string): boolean => /^(127\.|::1$)/.test(address);

/** The numeric address of an interface. @throws BAD_ARGUMENT */
function addressOfInterface(name: string): string {
  const own = networkInterfaces()[name]?.find(({ family }) => family === 'IPv4');
  if (own !== undefined) return own.address;
  const known = Object.keys(networkInterfaces()).join(', ');
  throw refused(
    `GLOO_SOCKET_IFNAME is ${name}, which has no IPv4 address here; the interfaces are ${known}.`,
  );
}

/** The address from which packets to `to` leave this machine. Nothing is sent. */
function addressTowards(to: string, port: number): Promise<string> {
  return new Promise((resolve, reject) => {
    const socket = createSocket(isIP(to) === 6 ? 'udp6' : 'udp4');
    socket.once('error', (error) => {
      socket.close();
      reject(error);
    });
    socket.connect(port, to, () => {
      const { address } = socket.address();
      socket.close();
      resolve(address);
    });
  });
}

/** @throws BAD_ARGUMENT for a host that is unknown, or leads nowhere from here */
export async function ownAddress(launch: Launch): Promise<string> {
  const { host, port, address, interface: name, size, localSize, launcherServes } = launch;
  if (address !== null) {
    if (isIP(address) !== 0) return address;
    throw refused(`ACOER_RANKS_ADDRESS must be a numeric address of this machine, not ${address}.`);
  }
  if (name !== null) return addressOfInterface(name);
  // All are here, and nobody has to reach a store of ours at MASTER_ADDR.
  if (launcherServes && localSize === size) return '127.0.0.1';
  try {
    const { address: to } = await lookup(host);
    const own = await addressTowards(to, port);
    // Debian gives a machine's own name the address 127.0.1.1.
    if (isLoopback(own) && isIP(host) === 0 && host !== 'localhost' && localSize < size)
      throw refused(
        `MASTER_ADDR ${host} is ${to} on this machine, where no other reaches it: set ACOER_RANKS_ADDRESS to this machine's address on the network.`,
      );
    return own;
  } catch (error) {
    if (error instanceof AcoerError) throw error;
    throw refused(`MASTER_ADDR ${host} cannot be reached from here (${errorMessage(error)}).`);
  }
}
