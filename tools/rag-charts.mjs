// The picture of docs/rag.md: prompt tokens that are computed, by the order of passages, from
// bench/results. tools/docs.mjs writes it.
import { legend, svg } from "./chart-style.mjs";

const LABELS = 190;
const BAR = 16;
const GAP = 2;
const ROW_GAP = 12;
const TOP = 66;
/** Width of the longest bar. */
const FULL = 470;
const POOLS = [
  { pool: "holds all", kind: "ours", name: "the pool holds all" },
  { pool: "evicts", kind: "peer", name: "a pool of 16,384 tokens" },
];
const LABELLED = {
  "no prefix cache, by similarity": "no prefix cache",
  "by similarity": "best first",
  "by document": "by document",
  "our order": "this order",
  "our order, retention": "and retention",
};

/**
 * @param {{ machine: { cpu: string, cores: number }, rows: { pool: string, name?: string,
 *   computedTokens?: number, firstTokenMs?: { mean: number } | null }[] }} results
 */
export function ragCacheChart({ machine, rows }) {
  const counted = rows.filter(({ computedTokens }) => computedTokens !== undefined);
  const most = Math.max(...counted.map(({ computedTokens }) => computedTokens));
  const parts = POOLS.map(({ kind, name }, place) => legend(kind, name, 330 + 200 * place));
  let y = TOP;
  for (const [name, label] of Object.entries(LABELLED)) {
    const bars = POOLS.flatMap(({ pool, kind }) => {
      const row = counted.find((one) => one.name === name && one.pool === pool);
      return row === undefined ? [] : [{ ...row, kind }];
    });
    const middle = y + (bars.length * (BAR + GAP)) / 2 + 4;
    parts.push(`<text x="${LABELS - 8}" y="${middle}" text-anchor="end">${label}</text>`);
    for (const { kind, computedTokens, firstTokenMs } of bars) {
      const width = Math.round((computedTokens / most) * FULL);
      const shape = `x="${LABELS}" y="${y}" width="${width}" height="${BAR}" rx="2"`;
      const times = firstTokenMs === null ? "" : `, ${Math.round(firstTokenMs.mean)} ms`;
      const text = `${Math.round(computedTokens / 1000)} k${times}`;
      parts.push(`<rect class="${kind}" ${shape}/>`);
      parts.push(`<text class="outside" x="${LABELS + width + 5}" y="${y + 12}">${text}</text>`);
      y += BAR + GAP;
    }
    y += ROW_GAP;
  }
  const text = {
    heading: "Prompt tokens computed for 200 questions, and the mean time to the first token",
    title: "What the order of passages saves",
    subtitle: `The bundled model, ${machine.cores} cores of an ${machine.cpu}`,
  };
  return svg({ ...text, height: y }, parts);
}
