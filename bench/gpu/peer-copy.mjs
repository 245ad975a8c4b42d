// How fast blocks come from another process's GPU: pulls by interprocess handles beside the
// driver's own copies of as many bytes, alternated.
//
//   node bench/gpu/peer-copy.mjs [--gpus 0,1] [--rounds 7] [--out FILE]
//
// With two GPUs the driver's copy is from one GPU to the other, of one process that sees both; with
// one GPU it is a copy inside of it. Blocks lie side by side, or none beside the next.
import { spawn } from "node:child_process";
import { writeFileSync } from "node:fs";
import { createInterface } from "node:readline";
import { fileURLToPath } from "node:url";
import { parseArgs } from "node:util";
import koffi from "koffi";
import { CudaDevice } from "../../dist/devices/cuda/cuda-device.js";
import {
  CudaDriver,
  CudaStream,
  describeGpu,
  PrimaryContext,
} from "../../dist/devices/cuda/driver/index.js";

const { values } = parseArgs({
  options: {
    gpus: { type: "string", default: "0" },
    rounds: { type: "string", default: "7" },
    owner: { type: "boolean", default: false },
    out: { type: "string" },
  },
});
const rounds = Number(values.rounds);
const gpus = values.gpus.split(",").map(Number);

/** A block of as many bytes as those of Llama-3.1-8B with 16 tokens in bfloat16: 2 MiB. */
const POOL = {
  format: "bf16",
  layers: 32,
  blocks: 1024,
  blockTokens: 16,
  kvHeads: 8,
  headDim: 128,
};

async function owner() {
  const device = await CudaDevice.open({ ordinal: gpus[0] });
  const cache = device.allocateKvPool(POOL);
  const host = device.allocateHostBlocks(cache, 8);
  for (let block = 0; block < 8; block++) device.hostBlock(host, block).fill(block + 1);
  const pairs = Int32Array.from({ length: 2 * POOL.blocks }, (_, at) =>
    at % 2 ? at >> 1 : (at >> 1) % 8,
  );
  device.onboardBlocks(cache, host, pairs);
  await device.synchronize();
  console.log(JSON.stringify({ description: device.describePool(cache) }));
  await new Promise((resolve) => process.stdin.once("end", resolve).resume());
  device.dispose();
}

/** Lets copies of the current GPU read another one's memory directly. */
function enablePeerAccess(driver, ordinal) {
  const enable = koffi
    .load(driver.path)
    .func("int cuCtxEnablePeerAccess(void *context, uint32_t flags)");
  const context = new BigUint64Array(1);
  driver.run("cuDevicePrimaryCtxRetain", context, describeGpu(driver, ordinal).device);
  const status = enable(context[0], 0);
  if (status !== 0) throw new Error(`cuCtxEnablePeerAccess: ${status}`);
}

function median(list) {
  return [...list].sort((a, b) => a - b)[Math.floor(list.length / 2)];
}

async function main() {
  const words = [fileURLToPath(import.meta.url), "--owner", "--gpus", values.gpus];
  const child = spawn(process.execPath, words, { stdio: ["pipe", "pipe", "inherit"] });
  const { value } = await createInterface({ input: child.stdout })[Symbol.asyncIterator]().next();
  const { description } = JSON.parse(value);

  const driver = CudaDriver.open();
  // The other GPU's memory of this process, which the driver's copy reads.
  const far = new PrimaryContext(driver, describeGpu(driver, gpus[0]));
  far.makeCurrent();
  const bytesMax = 2 ** 31;
  const out = new BigUint64Array(1);
  driver.run("cuMemAlloc", out, bytesMax);
  const source = out[0];
  const device = await CudaDevice.open({ ordinal: gpus.at(-1) });
  if (gpus.length > 1) enablePeerAccess(driver, gpus[0]);
  const stream = new CudaStream(driver);
  const cache = device.allocateKvPool(POOL);
  const peer = device.openPeerPool(description, cache);
  const target = cache.address;
  const busy = (mark) => {
    while (!mark.isDone());
  };
  const copy = (bytes) => {
    const start = performance.now();
    driver.run("cuMemcpyDtoDAsync", target, source, bytes, stream.handle);
    while (!stream.isIdle());
    return performance.now() - start;
  };
  const pull = (blocks, step) => {
    const pairs = Int32Array.from(
      { length: 2 * blocks },
      (_, at) => ((at >> 1) * step) % POOL.blocks,
    );
    const start = performance.now();
    busy(device.pullBlocks(cache, peer, pairs));
    return performance.now() - start;
  };
  const rows = [];
  for (const blocks of [1, 8, 32, 128, 512]) {
    for (const step of blocks > 1 ? [1, 3] : [1]) {
      const bytes = blocks * cache.bytesPerBlock;
      const [driverMs, pullMs] = [[], []];
      for (let round = -2; round < rounds; round++) {
        const [theirs, ours] = [copy(bytes), pull(blocks, step)];
        if (round < 0) continue;
        driverMs.push(theirs);
        pullMs.push(ours);
      }
      const speed = (ms) => Number((bytes / 1e6 / ms).toFixed(1));
      rows.push({
        ...{ blocks, mib: bytes / 2 ** 20, together: step === 1 },
        ...{ driver: speed(median(driverMs)), pulls: speed(median(pullMs)) },
        ratio: Number((median(driverMs) / median(pullMs)).toFixed(2)),
      });
      console.log(JSON.stringify(rows.at(-1)));
    }
  }
  // What was pulled is what the owner wrote: block b holds b % 8 + 1.
  const host = device.allocateHostBlocks(cache, 16);
  device.pullBlocks(
    cache,
    peer,
    Int32Array.from({ length: 32 }, (_, at) => (at % 2 ? at >> 1 : 100 + (at >> 1))),
  );
  const start = device.pullBlocks(cache, peer, new Int32Array(0));
  busy(start);
  device.offloadBlocks(
    cache,
    host,
    Int32Array.from({ length: 32 }, (_, at) => at >> 1),
  );
  await device.synchronize();
  const right = Array.from({ length: 16 }, (_, block) =>
    device.hostBlock(host, block).every((byte) => byte === ((100 + block) % 8) + 1),
  );
  console.log(JSON.stringify({ contents: right.every(Boolean) ? "right" : "WRONG" }));
  // The owner dies: what is mapped stays readable.
  child.kill("SIGKILL");
  await new Promise((resolve) => child.once("exit", resolve));
  busy(device.pullBlocks(cache, peer, Int32Array.of(7, 3)));
  device.offloadBlocks(cache, host, Int32Array.of(3, 0));
  await device.synchronize();
  console.log(JSON.stringify({ afterDeath: device.hostBlock(host, 0)[0] }));
  device.release(peer);
  device.dispose();
  if (values.out) writeFileSync(values.out, `${JSON.stringify(rows, null, 2)}\n`);
  process.exit(0);
}

await (values.owner ? owner() : main());
