/** Data in the page: JSON, gzipped, in base64. */
export async function unpack<T>(id: string): Promise<T | null> {
  const text = document.getElementById(id)?.textContent ?? '';
  if (text === '') return null;
  const bytes = Uint8Array.from(atob(text), (letter) => letter.charCodeAt(0));
  const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream('gzip'));
  return (await new Response(stream).json()) as T;
}
