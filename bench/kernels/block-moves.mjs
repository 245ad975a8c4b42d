/**
 * node bench/kernels/block-moves.mjs [--threads N] [--format bf16] [--seconds 0.3] [--out FILE]
 *
 * Moves of KV blocks inside the cache and to host memory, one at a time and many, beside a plain
 * memcpy of as many bytes. GB/s count what is copied once. Runs from dist; prints JSON.
 */

import { openDevice } from "../../dist/devices/index.js";
import { readFlags } from "../../tools/flags.mjs";
import { describeMachine, printResult } from "../machine.mjs";
import { SHAPES } from "../shapes.mjs";

const { values: flags } = readFlags({
  options: {
    threads: { type: "number", min: 1 },
    format: { type: "string", default: "bf16" },
    seconds: { type: "number", default: 0.3 },
    out: { type: "string" },
  },
});

const BLOCK_TOKENS = 16;
/** Together larger than any cache of the processor. */
const BLOCKS = 1024;
const COUNTS = [1, 16, 256];

/** GB/s of the best call; `run(round)` copies `bytes`. */
function speedOf(bytes, run) {
  let best = Number.POSITIVE_INFINITY;
  const end = performance.now() + flags.seconds * 1000;
  for (let round = 0; round < 2 || performance.now() < end; round++) {
    const start = performance.now();
    run(round);
    if (round > 0) best = Math.min(best, performance.now() - start);
  }
  return Math.round(bytes / best / 1e5) / 10;
}

/** `count` pairs of distinct blocks; in every round others, which are not in a cache. */
function pairsOf(count, round) {
  const first = (round * count) % (BLOCKS - count);
  return Int32Array.from({ length: 2 * count }, (_, i) =>
    i % 2 === 0 ? first + (i >> 1) : (first + (i >> 1) + BLOCKS / 2) % BLOCKS,
  );
}

function benchShape(device, { layers, kvHeads, headDim }) {
  const shape = { layers, kvHeads, headDim, blockTokens: BLOCK_TOKENS, blocks: BLOCKS };
  const cache = device.allocateKvPool({ ...shape, format: flags.format });
  const host = device.allocateHostBlocks(cache, BLOCKS);
  // Every page is there before the clock runs.
  const all = Int32Array.from({ length: 2 * BLOCKS }, (_, i) => i >> 1);
  device.offloadBlocks(cache, host, all);
  device.onboardBlocks(cache, host, all);
  const moves = COUNTS.map((count) => {
    const bytes = count * cache.bytesPerBlock;
    const from = new Uint8Array(bytes).fill(1);
    const to = new Uint8Array(bytes).fill(2);
    return {
      blocks: count,
      copy: speedOf(bytes, (round) => device.copyBlocks(cache, pairsOf(count, round))),
      offload: speedOf(bytes, (round) => device.offloadBlocks(cache, host, pairsOf(count, round))),
      memcpy: speedOf(bytes, () => to.set(from)),
    };
  });
  const { bytesPerBlock } = cache;
  device.release(host);
  device.release(cache);
  return { bytesPerBlock, gigabytesPerSecond: moves };
}

const device = await openDevice({
  kind: "cpu",
  ...(flags.threads === undefined ? {} : { threads: flags.threads }),
});
const results = Object.fromEntries(
  ["smol135", "qwen05"].map((name) => [name, benchShape(device, SHAPES[name])]),
);
printResult(
  { machine: describeMachine(), device: device.description, kv: flags.format, results },
  flags.out,
);
device.dispose();
