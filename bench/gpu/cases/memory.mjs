// Memory: writes at offsets, rows, long uploads, moves of blocks, and a captured graph.
import { RandomNumbers, verdict } from "../pair.mjs";

const blocks = 9;

/** Blocks of random bytes on the device, and what they are. */
function filledCache(pair, options) {
  const device = pair.tested;
  const cache = device.allocateKvPool({ ...options, blocks });
  const host = device.allocateHostBlocks(cache, blocks);
  const random = new RandomNumbers(cache.bytesPerBlock);
  const images = Array.from({ length: blocks }, (_, block) => {
    const bytes = random.bytes(cache.bytesPerBlock);
    device.hostBlock(host, block).set(bytes);
    return bytes;
  });
  const all = Int32Array.from({ length: 2 * blocks }, (_, i) => i >> 1);
  device.onboardBlocks(cache, host, all);
  return { device, cache, host, images, all };
}

/** The bytes of every block, read back into host blocks that were overwritten first. */
async function imagesOf({ device, cache, host, all }) {
  await device.synchronize();
  for (let block = 0; block < blocks; block++) device.hostBlock(host, block).fill(0xee);
  device.offloadBlocks(cache, host, all);
  await device.synchronize();
  return Array.from({ length: blocks }, (_, block) => device.hostBlock(host, block).slice());
}

function sameBytes(actual, wanted) {
  return actual.map((bytes, i) => verdict(bytes, wanted[i], 0, 0));
}

async function copyCase(pair, options) {
  const filled = filledCache(pair, options);
  const random = new RandomNumbers(3);
  // Chains, swaps of roles and copies onto itself: the pairs of one call go in their order.
  const list = [
    [1, 3],
    [3, 4],
    [0, 1],
    [4, 4],
  ];
  for (let i = 0; i < 300; i++) list.push([random.below(blocks), random.below(blocks)]);
  filled.device.copyBlocks(filled.cache, Int32Array.from(list.flat()));
  const wanted = [...filled.images];
  for (const [from, to] of list) wanted[to] = wanted[from];
  const verdicts = sameBytes(await imagesOf(filled), wanted);
  filled.device.release(filled.cache);
  filled.device.release(filled.host);
  return verdicts;
}

async function moveCase(pair) {
  const options = { format: "bf16", layers: 2, blockTokens: 16, kvHeads: 2, headDim: 64 };
  const filled = filledCache(pair, options);
  const { device, cache, host, images } = filled;
  // The block's place is used for something else between its two moves.
  device.offloadBlocks(cache, host, Int32Array.of(2, 8));
  device.copyBlocks(cache, Int32Array.of(0, 2));
  device.onboardBlocks(cache, host, Int32Array.of(8, 3));
  const wanted = [...images];
  [wanted[2], wanted[3]] = [images[0], images[2]];
  const verdicts = sameBytes(await imagesOf(filled), wanted);
  device.release(cache);
  device.release(host);
  return verdicts;
}

/** More than the staging ring holds, then small writes over it. */
async function writeCase(pair) {
  const random = new RandomNumbers(4);
  const count = 9_000_001;
  const data = Float32Array.from({ length: count }, () => random.uniform());
  const tensor = pair.f32([count], data);
  for (let i = 0; i < 2000; i++) {
    const patch = Float32Array.of(i, -i, i / 2);
    const offset = random.below(count - 3);
    for (const side of ["defined", "tested"]) pair[side].write(tensor[side], patch, offset);
  }
  const rows = pair.f32([7, 5], random.floats(35));
  const part = pair.make((device) =>
    device.rows(rows[device === pair.defined ? "defined" : "tested"], 2, 6),
  );
  const verdicts = [await pair.compare(tensor), await pair.compare(part)];
  // It shares memory with `rows`, which is released.
  pair.forget(part);
  return verdicts;
}

/** Each case: the op, what is special about it, and what runs it. */
export function* cases() {
  const heads = { layers: 3, kvHeads: 2, headDim: 20 };
  for (const format of ["f32", "bf16", "i8", "fp8"]) {
    for (const blockTokens of [1, 16]) {
      const options = { ...heads, format, blockTokens };
      const name = `${format}, blocks of ${blockTokens}`;
      yield { op: "copyBlocks", name, run: (pair) => copyCase(pair, options) };
    }
  }
  const large = { format: "bf16", layers: 32, blockTokens: 16, kvHeads: 8, headDim: 128 };
  yield { op: "copyBlocks", name: "2 MiB blocks", run: (pair) => copyCase(pair, large) };
  yield { op: "moveBlocks", name: "to the host and back", run: moveCase };
  yield { op: "write", name: "long and short", run: writeCase };
}
