/** The document of a report: one file that needs nothing else. */
import { createHash } from 'node:crypto';
import { escaped } from '../base/printable';
import { packageVersion } from '../base/version';
import { packed } from './completions';
import { figureCsv, type Figure } from './figure';
import { markup, Html } from './html';
import { pageFile } from './page-files';
import type { Section, Tile } from './single';

const asset = (name: string): string => pageFile(name).toString('utf8');

export interface PageContent {
  title: string;
  /** One sentence. */
  verdict: string;
  /** Facts in one line under the verdict. */
  facts: readonly string[];
  tiles: readonly Tile[];
  sections: readonly Section[];
  figures: readonly Figure[];
  /** From `packedCompletions`; null: the runs sample none. */
  completions: { packed: string; count: number } | null;
}

const tileHtml = ({ name, value, note }: Tile): Html =>
  markup`<div class="tile">
    <dt>${name}</dt>
    <dd>${value}${note === null ? null : markup`<small>${note}</small>`}</dd>
  </div>`;

/** Data that the script unpacks. Base64 has no letter that HTML knows. */
const dataHtml = (id: string, text: string): Html =>
  new Html(`<script type="application/gzip" id="${id}">${text}</script>`);

const completionsHtml = (count: number): Html =>
  count === 0
    ? markup`<p>There are no completions to show.</p>`
    : markup`<div id="completions">
        <noscript><p>Browsing ${count} completions needs JavaScript.</p></noscript>
      </div>`;

export function pageHtml({
  title,
  verdict,
  facts,
  tiles,
  sections,
  figures,
  completions,
}: PageContent): string {
  const all = [...sections];
  if (completions !== null) {
    const content = completionsHtml(completions.count);
    all.push({ id: 'completions-section', title: 'Completions', content });
  }
  const csv = Object.fromEntries(figures.map((figure) => [figure.id, figureCsv(figure)]));
  const body = markup`<a class="skip" href="#main">Skip to the content</a>
    <header class="page">
      <div class="title-row">
        <h1>${title}</h1>
        <button type="button" id="theme" hidden>Dark</button>
      </div>
      <p class="verdict">${verdict}</p>
      <p class="muted">${facts.join(' · ')}</p>
      <dl class="tiles">${tiles.map(tileHtml)}</dl>
      <nav aria-label="Sections">
        <ul class="row">
          ${all.map(({ id, title: name }) => markup`<li><a href="#${id}">${name}</a></li>`)}
        </ul>
      </nav>
    </header>
    <main id="main">
      ${all.map(
        ({ id, title: name, content }) =>
          markup`<section id="${id}">
            <h2>${name}</h2>
            ${content}
          </section>`,
      )}
    </main>
    <footer>
      <p class="muted">
        Made by acoer ${packageVersion()}. Figures and numbers come from the run's own files.
      </p>
    </footer>`;
  // Any other script, also in an attribute, is refused by the browser.
  const script = asset('report.js').replaceAll('</script', '<\\/script');
  const hash = createHash('sha256').update(script).digest('base64');
  return `<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta http-equiv="Content-Security-Policy" content="default-src 'none'; style-src 'unsafe-inline'; script-src 'sha256-${hash}'; img-src data: blob:">
<link rel="icon" href="data:,">
<title>${escaped(title)}</title>
<style>${asset('style.css')}</style>
</head>
<body>
${body.text}
${dataHtml('figure-data', packed(csv)).text}
${dataHtml('completion-data', completions?.packed ?? '').text}
<script>${script}</script>
</body>
</html>
`;
}
