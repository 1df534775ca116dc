/** The setting `notify`: an address that is a secret, and the word that stands for it in a run's files. */

export const REDACTED = 'redacted';

/** What an address must be, in messages, which never show one. */
export const ADDRESS = 'an http or https address without user and password';

export function isAddress(text: string): boolean {
  if (!URL.canParse(text)) return false;
  const { protocol, username, password } = new URL(text);
  return /^https?:$/.test(protocol) && username === '' && password === '';
}
