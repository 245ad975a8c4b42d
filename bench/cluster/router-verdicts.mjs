// What runs of several seeds say of routers: medians, spreads, and which one is better.
import { median } from "../machine.mjs";

/** Each figure that is compared, and whether more of it is better. */
const FIGURES = [
  { name: "hits", of: (row) => row.hitRate, isMoreBetter: true },
  { name: "imbalance", of: (row) => row.imbalance, isMoreBetter: false },
  { name: "ttft p50", of: (row) => row.ttftMs.p50, isMoreBetter: false },
  { name: "ttft p90", of: (row) => row.ttftMs.p90, isMoreBetter: false },
  { name: "router ms", of: (row) => row.routerMs, isMoreBetter: false },
];

/** The median over seeds, and the most minus the least. */
function summaryOf(runs, { of }) {
  const values = runs.map(of);
  return { median: median(values), spread: Math.max(...values) - Math.min(...values) };
}

const groupName = ({ traffic, workers, speedup, rateScale, untilSeconds }) =>
  `${traffic}, ${workers} workers, speed ${speedup} × ${rateScale}, ${untilSeconds} s`;

/** Rows by what they have in common, without those that failed. */
function groupsOf(rows, nameOf) {
  const groups = new Map();
  for (const row of rows) {
    if (row.failed !== undefined) continue;
    const name = nameOf(row);
    groups.set(name, [...(groups.get(name) ?? []), row]);
  }
  return groups;
}

/** A line for each router and traffic. */
export function summaryLines(rows) {
  return [...groupsOf(rows, (row) => `${row.router} | ${groupName(row)}`)].map(([name, runs]) => {
    const told = FIGURES.map((figure) => {
      const { median: middle, spread } = summaryOf(runs, figure);
      return `${figure.name} ${shown(middle)} ± ${shown(spread)}`;
    });
    return `${name}, ${runs.length} seeds: ${told.join("  ")}`;
  });
}

/**
 * A line for each other router: where `own` is better or worse. Both had the same traffic with each
 * seed, so differences are taken seed by seed: their median must be larger than their spread. One
 * seed has no spread, and says nothing.
 */
export function verdictLines(rows, own) {
  return [...groupsOf(rows, groupName)].flatMap(([group, all]) => {
    const routers = groupsOf(all, ({ router }) => router);
    const mine = routers.get(own);
    if (mine === undefined) return [];
    return [...routers]
      .filter(([router]) => router !== own)
      .map(([router, theirs]) => {
        const pairs = mine.flatMap((row) => {
          const other = theirs.find(({ seed }) => seed === row.seed);
          return other === undefined ? [] : [[row, other]];
        });
        const told = FIGURES.map((figure) => `${figure.name} ${verdictOf(pairs, figure)}`);
        const text = pairs.length > 1 ? told.join(", ") : "no verdict: one seed has no spread";
        return `${own} against ${router} (${group}, ${pairs.length} seeds): ${text}`;
      });
  });
}

function verdictOf(pairs, { of, isMoreBetter }) {
  const gains = pairs.map(([mine, theirs]) => (of(mine) - of(theirs)) * (isMoreBetter ? 1 : -1));
  const gain = median(gains);
  const spread = Math.max(...gains) - Math.min(...gains);
  if (Math.abs(gain) <= spread) return "even";
  return gain > 0 ? "better" : "worse";
}

const shown = (value) => String(Number(value.toPrecision(3)));
