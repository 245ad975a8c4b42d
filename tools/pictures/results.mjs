// What the pictures of docs have in common: their numbers come from bench/results and from nowhere
// else.
import { readFileSync } from "node:fs";
import { fileURLToPath } from "node:url";

const folder = fileURLToPath(new URL("../../bench/results/", import.meta.url));

/** A file of bench/results. */
export function results(name) {
  return JSON.parse(readFileSync(`${folder}${name}.json`, "utf8"));
}

/** Rows that have all of the wanted values. */
export function matching(rows, wanted) {
  return rows.filter((row) => Object.entries(wanted).every(([name, value]) => row[name] === value));
}

/** The only such row. A picture whose numbers are gone is not drawn without them. */
export function only(rows, wanted) {
  const found = matching(rows, wanted);
  if (found.length === 1) return found[0];
  throw new Error(`wanted one row of ${JSON.stringify(wanted)}, found ${found.length}`);
}

/** Points of rows that have both values. */
export function points(rows, x, y) {
  const has = (value) => value !== null && value !== undefined;
  return rows.filter((row) => has(row[x]) && has(row[y])).map((row) => [row[x], row[y]]);
}

/** The middle of an odd number of values. */
export function median(values) {
  return [...values].sort((a, b) => a - b)[Math.floor(values.length / 2)];
}

/** A number with so many digits behind its point. */
export const fixed = (value, digits) => value.toFixed(digits);

/** "2 cores of an AMD EPYC, 2026-11-21". */
export function machineText({ cpu, cores, date, gpu }) {
  if (gpu !== undefined) return `one ${gpu.split(",")[0]}, ${date}`;
  const name = cpu.replaceAll("(R)", "").replace(/ Processor.*/, "");
  return `${cores} cores of an ${name}, ${date}`;
}
