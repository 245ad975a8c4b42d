/**
 * node bench/tiers.mjs [--lengths 16,64,256,512,1024,1904] [--reps 3] [--dir FOLDER] [--out FILE]
 *
 * Time to the first token of a prompt by where its blocks are: on the device, in host memory, on
 * disk, nowhere; on models/pocket. The pool has room for one prompt, so that the next one drives it
 * to host memory, which holds one, too, where there is a disk. Beside it what `LoadCost` thought,
 * and whether its choice was the quicker way. Files are in the system's page cache, as they are
 * where a server has memory to spare. Prints JSON and writes it.
 */
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";
import { readFlags } from "../tools/flags.mjs";
import { createPrompts, withEngine } from "./bare-engine.mjs";
import { describeMachine, median } from "./machine.mjs";

const root = fileURLToPath(new URL("..", import.meta.url));
const { values: flags } = readFlags({
  options: {
    lengths: { type: "numbers", default: [16, 64, 256, 512, 1024, 1904], min: 1 },
    reps: { type: "number", default: 3, min: 1 },
    dir: { type: "string", default: tmpdir() },
    out: { type: "string", published: `${root}bench/results/tiers.json` },
  },
});
const lengths = flags.lengths;
const reps = flags.reps;

const MODEL = `${root}models/pocket`;
const BLOCK_TOKENS = 16;

const rounded = (value, digits = 3) => Number(value.toFixed(digits));

/** `length` tokens to be stored, in whole blocks, and one that is always computed. */
function setUp(length, diskDir) {
  const blocks = length / BLOCK_TOKENS;
  return {
    path: MODEL,
    options: { kvCache: { blockTokens: BLOCK_TOKENS, partialReuse: false, diskCacheDir: diskDir } },
    blocks: {
      pool: blocks + 1,
      host: diskDir === null ? 3 * blocks : blocks,
      disk: diskDir === null ? 0 : 16 * blocks,
    },
  };
}

/** Milliseconds to the first token of one prompt, and the level that it was found in. */
async function ask(engine, prompt) {
  const hitTokens = () => engine.cacheStats.levels.map((level) => level.hitTokens);
  const before = hitTokens();
  const { firstSeconds } = await engine.run([prompt], 1);
  const hits = hitTokens().map((tokens, level) => tokens - before[level]);
  const place = hits.findIndex((tokens) => tokens > 0);
  const level = ["device", "host", "disk"][place] ?? "nowhere";
  return { ms: firstSeconds[0] * 1000, level, tokens: hits[place] ?? 0 };
}

/** Each way `reps` times; a way that is not the wanted one is our mistake. */
async function measureDeviceAndHost(length) {
  const times = { nowhere: [], device: [], host: [] };
  return await withEngine(setUp(length, null), async (engine) => {
    const draw = createPrompts(engine.info.vocabularySize);
    const prompt = () => draw(length + 1);
    await engine.run([prompt()], 1);
    for (let rep = 0; rep < reps; rep++) {
      const mine = prompt();
      for (const [asked, wanted] of [
        [mine, "nowhere"],
        [mine, "device"],
        [prompt(), "nowhere"],
        [mine, "host"],
      ]) {
        const { ms, level, tokens } = await ask(engine, asked);
        check({ level, tokens }, { level: wanted, tokens: wanted === "nowhere" ? 0 : length });
        times[wanted].push(ms);
      }
    }
    const { onboard, offload } = engine.moves;
    const blocks = length / BLOCK_TOKENS;
    return {
      bytes: onboard.bytes / reps,
      nowhereMs: rounded(median(times.nowhere)),
      deviceMs: rounded(median(times.device)),
      hostMs: rounded(median(times.host)),
      onboardGigabytesPerSecond: rounded(onboard.bytes / onboard.ms / 1e6),
      offloadGigabytesPerSecond: rounded(offload.bytes / offload.ms / 1e6),
      estimatedHostMs: rounded(engine.cost.loadMs(blocks, 1)),
      estimatedRecomputeMs: rounded(engine.cost.recomputeMs(length)),
    };
  });
}

async function measureDisk(length) {
  const folder = mkdtempSync(join(flags.dir, "perigee-tiers-"));
  try {
    return await withEngine(setUp(length, folder), async (engine) => {
      const draw = createPrompts(engine.info.vocabularySize);
      const prompt = () => draw(length + 1);
      const times = { disk: [], nowhere: [] };
      for (let rep = 0; rep < reps; rep++) {
        const mine = prompt();
        for (const asked of [mine, prompt(), prompt()]) {
          await engine.run([asked], 1);
          await engine.settle();
        }
        const { ms, level, tokens } = await ask(engine, mine);
        // The engine may think that computing is quicker, once it knows how fast the disk is.
        if (level !== "nowhere") check({ level, tokens }, { level: "disk", tokens: length });
        times[level].push(ms);
      }
      const { reads, writes } = engine.moves.disk;
      const blocks = length / BLOCK_TOKENS;
      const choice = { level: 2, blocks, start: 0, end: length };
      return {
        diskMs: rounded(median(times.disk)),
        loadedOf: `${times.disk.length} of ${reps}`,
        diskReadGigabytesPerSecond: rounded(reads.bytes / reads.ms / 1e6),
        diskWriteGigabytesPerSecond: rounded(writes.bytes / writes.ms / 1e6),
        estimatedDiskMs: rounded(engine.cost.loadMs(blocks, 2)),
        loads: engine.cost.loadPays(choice),
      };
    });
  } finally {
    rmSync(folder, { recursive: true });
  }
}

function check(found, wanted) {
  if (JSON.stringify(found) === JSON.stringify(wanted)) return;
  throw new Error(`Found ${JSON.stringify(found)}, wanted ${JSON.stringify(wanted)}`);
}

const rows = [];
for (const length of lengths) {
  const memory = await measureDeviceAndHost(length);
  const disk = await measureDisk(length);
  const loadIsRight = disk.loads === disk.diskMs < memory.nowhereMs;
  rows.push({ length, ...memory, ...disk, loadIsRight });
}
const result = {
  benchmark: "tiers",
  command: `node bench/tiers.mjs --lengths ${flags.lengths} --reps ${reps}`,
  machine: describeMachine(),
  model: "models/pocket, bfloat16 weights, keys and values",
  unit: "ms to the first token of a prompt of `length` stored tokens and one more",
  blockTokens: BLOCK_TOKENS,
  rows,
};
const text = `${JSON.stringify(result, null, 2)}\n`;
mkdirSync(dirname(flags.out), { recursive: true });
writeFileSync(flags.out, text);
process.stdout.write(text);
