// The pictures of docs/speculation.md: tokens a step of each drafter by kind of text, and the
// speed-up of `auto` by streams, from bench/results. tools/docs.mjs writes them.
import { legend, limitLine, svg } from "./chart-style.mjs";

const LABELS = 150;
const BAR = 12;
const GAP = 2;
const ROW_GAP = 12;
const TOP = 66;
/** Width of the longest bar. */
const FULL = 520;
const KINDS = ["ours", "peer", "third", "fourth", "fifth"];
/** Where the names of the series begin, and how much of the width they have. */
const NAMES = 330;
const NAMES_WIDTH = 425;

/**
 * Rows of bars, one for each series that has a value there.
 *
 * @param {{ label: string, values: readonly (number | null)[] }[]} rows
 * @param {readonly string[]} series
 */
function grouped(text, { rows, series, unit }) {
  const most = Math.max(...rows.flatMap(({ values }) => values.filter((value) => value !== null)));
  const parts = [];
  let y = TOP;
  for (const { label, values } of rows) {
    const first = y;
    values.forEach((value, place) => {
      if (value === null) return;
      const width = Math.round((value / most) * FULL);
      const shape = `x="${LABELS}" y="${y}" width="${width}" height="${BAR}" rx="2"`;
      const at = `x="${LABELS + width + 5}" y="${y + BAR - 2}"`;
      parts.push(`<rect class="${KINDS[place]}" ${shape}/>`);
      parts.push(`<text class="outside" ${at}>${value.toFixed(2)}${unit}</text>`);
      y += BAR + GAP;
    });
    const middle = (first + y - GAP) / 2 + 5;
    parts.push(`<text x="${LABELS - 8}" y="${middle}" text-anchor="end">${label}</text>`);
    y += ROW_GAP;
  }
  const one = LABELS + Math.round(FULL / most);
  const apart = Math.min(105, Math.floor(NAMES_WIDTH / series.length));
  const names = series.map((name, place) => legend(KINDS[place], name, NAMES + apart * place));
  return svg({ ...text, height: y }, [...names, limitLine(one, y - 8, "1"), ...parts]);
}

/**
 * @param {{ subtitle: string, series: string[], rows: { text: string, outputs: number,
 *   tokensPerStep: (number | null)[] }[] }} results
 */
export function acceptanceChart({ subtitle, series, rows }) {
  const text = { heading: "Tokens a step, by kind of text", title: "Tokens a step", subtitle };
  return grouped(text, {
    ...{ series, unit: "" },
    rows: rows.map((row) => ({ label: `${row.text} (${row.outputs})`, values: row.tokensPerStep })),
  });
}

const TEXTS = ["prose", "code", "chat", "json", "copy", "schema", "predicted"];
const STREAMS = [1, 4, 16];

/**
 * @param {{ machine: { cpu: string, cores: number, date: string }, runs: { arguments: string,
 *   rows: Record<string, { ratio: number }> }[] }} results
 */
export function speedUpChart({ machine, runs }) {
  const rows = Object.assign({}, ...runs.filter(isAuto).map((run) => run.rows));
  const text = {
    heading: "Speed with --speculative auto, as a multiple of none",
    title: "Speed-up by drafts, by kind of text and streams",
    subtitle: `The bundled model, bfloat16, ${machine.cores} cores of an ${machine.cpu}`,
  };
  return grouped(text, {
    ...{ series: STREAMS.map((count) => `${count} stream${count > 1 ? "s" : ""}`), unit: " ×" },
    rows: TEXTS.map((label) => ({
      label,
      values: STREAMS.map((count) => rows[`${label} ${count}`]?.ratio ?? null),
    })).filter(({ values }) => values.some((value) => value !== null)),
  });
}

function isAuto(run) {
  return run.arguments.includes("--kind auto");
}
