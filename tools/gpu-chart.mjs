// docs/gpu.svg: the rows of bench/results/gpu.json as bars, each as a share of what the GPU allows.
// tools/docs.mjs writes it.
import { legend, limitLine, svg } from "./chart-style.mjs";

const LABELS = 262;
const BAR = 16;
const GAP = 3;
const ROW_GAP = 12;
const TOP = 66;
/** Width of a bar of 100 %. */
const FULL = 470;

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
  return svg(
    {
      ...{ height: y, subtitle: title, title: `Share of the GPU's limit: ${title}` },
      heading: "Share of what the GPU allows, by kind of work",
    },
    [
      legend("ours", "Perigee", LABELS),
      legend("peer", "transformers", LABELS + 80),
      limitLine(end, y - 6, "100 %"),
      ...parts,
    ],
  );
}
