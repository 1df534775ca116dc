/** Secrets that a server asks for. */
import { createHash, randomBytes, timingSafeEqual } from 'node:crypto';

/** 24 bytes: 192 bits. */
export const newSecret = (): string => randomBytes(24).toString('base64url');

const digest = (text: string): Buffer => createHash('sha256').update(text).digest();

/** In a time that tells nothing of where they differ. */
export const sameSecret = (given: string, secret: string): boolean =>
  timingSafeEqual(digest(given), digest(secret));
