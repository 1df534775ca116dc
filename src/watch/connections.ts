/** Connections to the live page, so that those without the token cannot keep others out. */
import type { Socket } from 'node:net';

export class Connections {
  /** Without the token so far, oldest first. */
  private readonly strangers = new Set<Socket>();

  /** @param most strangers at a time; one more closes the oldest, and a page sends its token at once */
  constructor(private readonly most: number) {}

  add(socket: Socket): void {
    this.strangers.add(socket);
    socket.once('close', () => this.strangers.delete(socket));
    if (this.strangers.size <= this.most) return;
    const [oldest] = this.strangers;
    oldest!.destroy();
    this.strangers.delete(oldest!);
  }

  /** The connection has shown the token. */
  trust(socket: Socket): void {
    this.strangers.delete(socket);
  }
}
