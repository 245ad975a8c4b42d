/** Charts as SVG: a file of its own, or a part of a page. */
import { drawBars } from "./bar-chart.ts";
import type { Chart } from "./chart.ts";
import { type Drawn, round, WIDTH } from "./drawn.ts";
import { drawLines } from "./line-chart.ts";
import { escaped } from "./markup.ts";
import { CHART_STYLE } from "./style.ts";

export interface PictureText {
  /** Read out to those who cannot see it. Default: the first chart's title. */
  readonly title?: string;
}

const SUMMARY_MAX = 4000;

/**
 * A file: charts below each other on a ground of their own, since a page may be light where its
 * reader's system is dark.
 */
export function picture(charts: readonly Chart[], { title }: PictureText = {}): string {
  const all = charts.map(drawn);
  let y = 0;
  const groups = all.map(({ parts, height }) => {
    const group = `<g transform="translate(0 ${round(y)})">\n${parts.join("\n")}\n</g>`;
    y += height;
    return group;
  });
  const height = Math.ceil(y);
  return `${opening(height, ' aria-labelledby="title desc"')}
<title id="title">${escaped(title ?? charts[0]?.title ?? "")}</title>
<desc id="desc">${escaped(inWords(all))}</desc>
<style>${CHART_STYLE}</style>
<rect class="page" width="${WIDTH}" height="${height}" rx="6"/>
${groups.join("\n")}
</svg>
`;
}

/** One chart for a page that has `CHART_STYLE` and a ground of its own. */
export function inlineChart(chart: Chart): string {
  const one = drawn(chart);
  return `${opening(Math.ceil(one.height), "")}
<title>${escaped(chart.title)}</title>
<desc>${escaped(inWords([one]))}</desc>
${one.parts.join("\n")}
</svg>
`;
}

function drawn(chart: Chart): Drawn {
  return chart.kind === "lines" ? drawLines(chart) : drawBars(chart);
}

function opening(height: number, more: string): string {
  const box = `viewBox="0 0 ${WIDTH} ${height}" width="${WIDTH}" height="${height}"`;
  return `<svg xmlns="http://www.w3.org/2000/svg" class="chart" role="img"${more} ${box}>`;
}

function inWords(all: readonly Drawn[]): string {
  const words = all.map(({ summary }) => summary).join(" ");
  return words.length > SUMMARY_MAX ? `${words.slice(0, SUMMARY_MAX)}…` : words;
}
