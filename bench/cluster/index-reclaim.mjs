/**
 * The longest pause of a router that a worker with a million blocks leaves, where its blocks are
 * given back at once and in slices. Runs the built package.
 *
 *   node bench/cluster/index-reclaim.mjs
 */
import { FleetIndex } from "../../dist/cluster/index/index.js";

const RUNS = 1000;
const RUN_BLOCKS = 1000;
const BLOCK_TOKENS = 16;
const SLICE_BLOCKS = 4096;

const scope = { model: "m", blockTokens: BLOCK_TOKENS, salt: null, lora: null, group: 0 };

/** An index with one worker of a million blocks. */
function filled() {
  const clock = { nowMs: () => performance.now() };
  const index = new FleetIndex({ clock, bytesMax: 2 ** 29 });
  const worker = index.join({ announces: true });
  for (let run = 0; run < RUNS; run++) {
    const first = run * RUN_BLOCKS;
    const length = RUN_BLOCKS * BLOCK_TOKENS;
    const tokens = Uint32Array.from({ length }, (_, at) => first * BLOCK_TOKENS + at);
    const names = Uint32Array.from({ length: RUN_BLOCKS * 2 }, (_, at) =>
      at % 2 === 0 ? first + at / 2 + 1 : 1,
    );
    index.apply(worker, [{ type: "stored", scope, level: 0, parent: null, names, tokens }]);
  }
  return { index, worker };
}

for (const slice of [Number.POSITIVE_INFINITY, SLICE_BLOCKS]) {
  const { index, worker } = filled();
  const pauses = [];
  const timed = (call) => {
    const startMs = performance.now();
    const result = call();
    pauses.push(performance.now() - startMs);
    return result;
  };
  timed(() => index.leave(worker));
  const left = pauses[0];
  while (timed(() => index.reclaim(slice))) {
    // the next slice
  }
  const sorted = pauses.toSorted((a, b) => a - b);
  const median = sorted[sorted.length >> 1];
  console.log(
    `${slice === SLICE_BLOCKS ? `slices of ${slice}` : "at once"}: leave ${left.toFixed(3)} ms, ` +
      `longest pause ${sorted.at(-1).toFixed(1)} ms, median ${median.toFixed(2)} ms`,
  );
}
