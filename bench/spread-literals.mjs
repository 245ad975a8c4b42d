/**
 * node bench/spread-literals.mjs [--turns 200000]
 *
 * What an object literal takes that begins with a spread, by this Node: why the build writes
 * `{ ...null, ...a, b }` for `{ ...a, b }` (tools/spread-literals.mjs). Times in ns, medians of
 * five, and what a collection of the young generation leaves.
 */
import { getHeapStatistics, setFlagsFromString } from "node:v8";
import { readFlags } from "../tools/flags.mjs";
import { median } from "./machine.mjs";

setFlagsFromString("--expose-gc");
const { values: flags } = readFlags({
  options: { turns: { type: "number", default: 200_000, min: 1000 } },
});
const base = { a: 1, b: 2 };
const LITERALS = {
  "{ a, b, c, d, e }": (a, b, c) => ({ a, b, c, d: a, e: b }),
  "{ ...base, c, d, e }": (a, b, c) => ({ ...base, c, d: a, e: b }),
  "{ ...null, ...base, c, d, e }": (a, b, c) => ({ ...null, ...base, c, d: a, e: b }),
};

let last = null;
const collect = globalThis.gc ?? (await import("node:vm")).runInNewContext("gc");
for (const [name, make] of Object.entries(LITERALS)) {
  const times = [];
  collect();
  const before = getHeapStatistics().used_heap_size;
  for (let run = 0; run < 5; run++) {
    const from = process.hrtime.bigint();
    for (let turn = 0; turn < flags.turns; turn++) last = make(turn, "b", last === null ? 0 : 1);
    times.push(Number(process.hrtime.bigint() - from) / flags.turns);
  }
  collect({ type: "minor" });
  const bytes = Math.max(0, getHeapStatistics().used_heap_size - before);
  const ns = median(times).toFixed(0).padStart(6);
  console.log(`${name.padEnd(32)} ${ns} ns ${(bytes / 1e6).toFixed(1).padStart(6)} MB left`);
}
