/** The page and the files that belong to it, as they are bundled into dist/pages. */
import { pageFile } from '../report';

const ICON =
  'data:image/svg+xml,' +
  encodeURIComponent(
    '<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 16 16"><rect width="16" height="16" rx="3" ' +
      'fill="#0072b2"/><path d="M3 4.5 7 9l2.500-1.500L13 12" fill="none" stroke="#fff" stroke-width="2"/></svg>',
  );

const HTML = `<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>acoer watch</title>
<link rel="icon" href="${ICON}">
<link rel="stylesheet" href="style.css">
<link rel="stylesheet" href="watch-style.css">
<script src="watch.js" defer></script>
</head>
<body>
<noscript>This page draws a run in progress, which needs JavaScript. acoer report makes a page that does not.</noscript>
</body>
</html>
`;

export interface PageFile {
  type: string;
  content: Buffer;
}

/** By the last part of the address; the page itself has none. @throws SETUP if they were not built */
export function pageFiles(): Map<string, PageFile> {
  const read = (name: string, type: string): [string, PageFile] => [name, { type, content: pageFile(name) }];
  return new Map([
    ['', { type: 'text/html; charset=utf-8', content: Buffer.from(HTML) }],
    read('style.css', 'text/css; charset=utf-8'),
    read('watch-style.css', 'text/css; charset=utf-8'),
    read('watch.js', 'text/javascript; charset=utf-8'),
  ]);
}
