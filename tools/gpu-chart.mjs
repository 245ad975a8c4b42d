// docs/gpu.svg: the rows of bench/results/gpu.json as bars, each as a share of what the GPU allows.
// Readable on light and on dark pages. tools/docs.mjs writes it.

const WIDTH = 760;
const LABELS = 262;
const BAR = 16;
const GAP = 3;
const ROW_GAP = 12;
const TOP = 66;
/** Width of a bar of 100 %. */
const FULL = 470;

const LIGHT = `text{font:13px system-ui,sans-serif;fill:#1f2328}
.quiet{fill:#59636e;font-size:12px}.value{fill:#fff;font-size:12px}
.ours{fill:#0969da}.peer{fill:#9a6700}.limit{stroke:#59636e}`;
const DARK = `text{fill:#f0f6fc}.quiet{fill:#9198a1}.value{fill:#0d1117}
.ours{fill:#4493f8}.peer{fill:#d29922}.limit{stroke:#9198a1}`;
const STYLE = `${LIGHT}\n@media (prefers-color-scheme:dark){${DARK}}`;

/** @returns {string} three digits and the unit */
function quantity(value, unit) {
  const thousands = value >= 10_000;
  const scaled = thousands ? value / 1000 : value;
  const digits = Number(scaled.toPrecision(3));
  return `${digits}${thousands ? " k" : ""} ${unit}`;
}

/** Share of the limit that a value reaches: speeds grow towards it, times shrink. */
const shareOf = (value, { limit, unit }) => (unit === "tok/s" ? value / limit : limit / value);

function bar(row, value, kind, y) {
  const share = shareOf(value, row);
  const width = Math.round(share * FULL);
  const text = `${Math.round(share * 100)} % · ${quantity(value, row.unit)}`;
  return `<rect class="${kind}" x="${LABELS}" y="${y}" width="${width}" height="${BAR}" rx="2"/>
<text class="value" x="${LABELS + width - 6}" y="${y + BAR - 4}" text-anchor="end">${text}</text>`;
}

/** The bars of one kind of work, the label beside them, and the height that they take. */
function rowOf(row, y) {
  const peer = row.transformersMeasured;
  const bars = [bar(row, row.ours, "ours", y)];
  if (peer !== null) bars.push(bar(row, peer, "peer", y + BAR + GAP));
  const height = bars.length * (BAR + GAP) - GAP;
  const place = `x="${LABELS - 8}" y="${y + height / 2 + 5}" text-anchor="end"`;
  const label = `<text ${place}>${row.work}</text>`;
  return { height, text: [label, ...bars].join("\n") };
}

/**
 * @param {{ machine: { gpu: string, date: string }, rows: { work: string, unit: string,
 *   ours: number, limit: number, transformersMeasured: number | null }[] }} results
 */
export function gpuChart({ machine, rows }) {
  const [gpu] = machine.gpu.split(",");
  const title = `Llama-3.1-8B's shape, bfloat16, one ${gpu}, ${machine.date}`;
  const parts = [];
  let y = TOP;
  for (const row of rows) {
    const { height, text } = rowOf(row, y);
    parts.push(text);
    y += height + ROW_GAP;
  }
  const end = LABELS + FULL;
  return `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 ${WIDTH} ${y}" width="${WIDTH}" role="img">
<title>Share of the GPU's limit: ${title}</title>
<style>${STYLE}</style>
<text x="8" y="20" font-weight="600">Share of what the GPU allows, by kind of work</text>
<text class="quiet" x="8" y="39">${title}</text>
<rect class="ours" x="${LABELS}" y="47" width="10" height="10" rx="2"/>
<text class="quiet" x="${LABELS + 15}" y="56">Perigee</text>
<rect class="peer" x="${LABELS + 80}" y="47" width="10" height="10" rx="2"/>
<text class="quiet" x="${LABELS + 95}" y="56">transformers</text>
<text class="quiet" x="${end}" y="56" text-anchor="middle">100 %</text>
<path class="limit" stroke-dasharray="2 3" d="M${end} ${TOP - 4}V${y - 6}"/>
${parts.join("\n")}
</svg>
`;
}
