// node bench/gpu/wgmma-probe.mjs [--variants] [--ways NAME,NAME] [--scale 1]
//
// Prefill attention by Hopper's kernel alone (native/cuda/attend-prefill-wgmma.cu). First its
// error: ‖out - ref‖ / ‖ref‖ on small shapes beside the definition, the largest difference on
// large ones beside the exact kernels of the same device. Then its speed beside the general
// kernel's, which blocks of 4 tokens get: medians, 4 D operations per query head and visible pair.
// --variants measures other ways of the kernel instead (kernel-variants.mjs), each beside the
// result of the one that is built, with a scale that lets few positions count; --ways "NAME,NAME +
// NAME" takes others, some of them together. One that is wrong on purpose shows that a difference
// is seen. --scale divides lengths, for an emulated GPU. Needs a GPU and the build; exits 1 on a
// wrong result.
import { readFlags } from "../../tools/flags.mjs";
import { difference, openOrGiveUp, requireBuild } from "./gpu-bench.mjs";

await requireBuild();
const { cudaFromEnvironment } = await import("../../dist/cli/cuda-environment.js");
const { fillRandom, gpuMs } = await import("../../dist/devices/cuda/ceilings.js");
const { CudaDevice } = await import("../../dist/devices/cuda/cuda-device.js");
const { CudaSession } = await import("../../dist/devices/cuda/cuda-session.js");
const { canAttendPrefillWgmma } = await import(
  "../../dist/devices/cuda/ops/attend-prefill-wgmma.js"
);
const { KernelVariants, prefillReplacements, usualPrefillWays, wrongPrefill } = await import(
  "./kernel-variants.mjs"
);
const { Pair } = await import("./pair.mjs");
const { prefillCase } = await import("./cases/attend-prefill.mjs");

const { values: flags } = readFlags({
  options: {
    variants: { type: "boolean" },
    ways: { type: "string" },
    scale: { type: "number", default: 1, min: 1 },
  },
});
const scale = flags.scale;

const heads = 32;
const kvHeads = 8;
const headDim = 128;
const columns = heads * headDim;
const usualBlockTokens = 16;
/** Of blocks that Hopper's kernel leaves to the general one. */
const otherBlockTokens = 4;

/** Queries and weights are rounded to 16 bits, and so is the output; values are in [-1, 1). */
const largeTolerance = 2 ** -7;

/**
 * Of scores, where variants are compared: with the usual one and such numbers all positions count
 * alike, a row of many is near 0 whatever its weights are, and no maximum matters.
 */
const steepScale = 8 / Math.sqrt(headDim);

/** [context, new rows] of one sequence, beside the definition. */
const small = [
  [17, 17],
  [32, 32],
  [128, 32],
  [129, 33],
  [256, 128],
  [700, 100],
];

/** Sequences, and context and new rows of each. */
const large = [
  { batch: 1, context: 8192, count: 8192 },
  { batch: 16, context: 512, count: 512 },
  { batch: 4, context: 2048, count: 2048 },
  { batch: 1, context: 32_768, count: 2048 },
  { batch: 1, context: 8192, count: 8192, window: 1024 },
  { batch: 1, context: 8192, count: 512 },
].map((work) => ({ ...work, context: work.context / scale, count: work.count / scale }));

const settings = cudaFromEnvironment();
const session = await openOrGiveUp(() => CudaSession.open({ settings, freshByte: 0xff }));
const runs = scale === 1 ? 15 : 1;
const device = new CudaDevice(session);
console.log(device.description);
let failed = 0;

function report(title, error, isGood) {
  console.log(`${title}: error ${error.toExponential(2)}${isGood ? "" : "  WRONG"}`);
  if (!isGood) failed++;
}

/** One error per size: which tiles are wrong says what is. */
async function checkSmall() {
  for (const dims of [64, 128]) {
    for (const [context, rows] of small) {
      const pair = new Pair(device);
      const shape = { heads: 4, kvHeads: 1, headDim: dims, blockTokens: usualBlockTokens };
      const [{ error, excess, detail }] = await prefillCase(pair, shape, "bf16", [[context, rows]]);
      report(`D ${dims}, ${rows} rows of ${context}`, error, excess <= 0);
      if (excess > 0) console.log(`  ${detail}`);
      pair.release();
    }
  }
}

/** A batch of equal sequences in shuffled blocks of random numbers. */
function inputOf({ batch, context, count, window }, blockTokens) {
  const perSequence = Math.ceil(context / blockTokens);
  const blocks = batch * perSequence;
  const cache = device.allocateKvPool({
    ...{ format: "bf16", layers: 1, blocks, blockTokens, kvHeads, headDim },
  });
  fillRandom(session, cache.address, blocks * cache.bytesPerBlock, "bf16");
  const query = device.allocate("f32", [batch * count, columns]);
  fillRandom(session, query.address, 4 * batch * count * columns, "f32");
  const i32 = (shape, elementAt) => {
    const tensor = device.allocate("i32", shape);
    const length = shape.reduce((product, size) => product * size);
    device.write(
      tensor,
      Int32Array.from({ length }, (_, at) => elementAt(at)),
    );
    return tensor;
  };
  // An odd step visits every block once, in no order that memory has.
  const step = blocks % 7919 === 0 ? 1 : 7919;
  return {
    ...{ count: batch * count, query, heads, cache, layer: 0, scale: 1 / Math.sqrt(headDim) },
    ...(window === undefined ? {} : { window }),
    batch: {
      ...{ sequences: batch, queryLengthMax: count, contextLengthMax: context },
      queryStarts: i32([batch + 1], (sequence) => sequence * count),
      contextLengths: i32([batch], () => context),
      blockTables: i32([batch, perSequence], (at) => (at * step) % blocks),
    },
  };
}

function releaseInput({ cache, query, batch }) {
  const { queryStarts, contextLengths, blockTables } = batch;
  for (const memory of [cache, query, queryStarts, contextLengths, blockTables]) {
    device.release(memory);
  }
}

/** Runs `use` with an output in `format`. */
async function withOut(format, input, use) {
  const out = device.allocateActivation(format, input.count, columns);
  try {
    return await use({ ...input, out });
  } finally {
    device.release(out);
  }
}

async function resultOf(format, input) {
  return withOut(format, input, (whole) => {
    device.pagedAttention(whole);
    return device.readF32(whole.out);
  });
}

async function checkLarge(input, title) {
  const worst = difference(await resultOf("f32", input), await resultOf("bf16", input));
  report(title, worst, worst <= largeTolerance);
}

/** Pairs of a row and a position that it sees, over all sequences. */
function visiblePairs({ batch, context, count, window = context }) {
  let pairs = 0;
  for (let own = context - count; own < context; own++) pairs += Math.min(own + 1, window);
  return batch * pairs;
}

function timed(input, work) {
  return withOut("bf16", input, (whole) => {
    const ms = gpuMs(session, () => device.pagedAttention(whole), runs);
    const tflops = (4 * headDim * heads * visiblePairs(work)) / ms / 1e9;
    return `${ms.toFixed(3)} ms, ${tflops.toFixed(0)} TFLOP/s`;
  });
}

async function measure(work) {
  const { batch, context, count, window } = work;
  const title = `${batch} x ${count} of ${context}${window ? `, window ${window}` : ""}`;
  const input = inputOf(work, usualBlockTokens);
  const isHoppers = await withOut("bf16", input, (whole) =>
    canAttendPrefillWgmma(session.context, whole),
  );
  await checkLarge(input, title);
  console.log(`  ${isHoppers ? "Hopper's" : "general, not Hopper's"}: ${await timed(input, work)}`);
  releaseInput(input);
  const other = inputOf(work, otherBlockTokens);
  console.log(`  general, blocks of ${otherBlockTokens}: ${await timed(other, work)}`);
  releaseInput(other);
}

/** The first shapes of `large`, by every way of the kernel. */
async function measureVariants() {
  const variants = new KernelVariants(session, settings, {
    file: "attend-prefill-wgmma",
    name: "attend_prefill_wgmma_bf16_128",
  });
  const works = [];
  for (const work of large.slice(0, 4)) {
    const input = inputOf(work, usualBlockTokens);
    works.push({ work, input, wanted: await steepResult(input) });
  }
  await checkComparison(variants, works[0]);
  for (const [name, replacements] of chosenVariants()) {
    console.log(name);
    variants.use(replacements);
    for (const { work, input, wanted } of works) {
      const { batch, context, count } = work;
      const time = await timed(input, work);
      const error = difference(wanted, await steepResult(input));
      report(`  ${batch} x ${count} of ${context}: ${time}`, error, error <= largeTolerance);
    }
  }
  for (const { input } of works) releaseInput(input);
}

const steepResult = (input) => resultOf("bf16", { ...input, scale: steepScale });

/** Those that were asked for; the one that is built in front and behind, since a GPU grows warm. */
function chosenVariants() {
  const names = flags.ways?.split(",") ?? usualPrefillWays;
  const chosen = names.map((name) => [name, prefillReplacements(name)]);
  return [["as it is", []], ...chosen, ["as it is, again", []]];
}

/** A variant that is wrong must be found so. */
async function checkComparison(variants, { input, wanted }) {
  variants.use(wrongPrefill);
  const error = difference(wanted, await steepResult(input));
  report("wrong on purpose", error, error > largeTolerance);
}

async function measureAll() {
  await checkSmall();
  for (const work of large) await measure(work);
}

await (flags.variants ? measureVariants() : measureAll());
device.dispose();
process.exit(failed === 0 ? 0 : 1);
