// node bench/gpu/short-prompts.mjs [--tokens 8,16,32,64] [--contexts 512,2048,8192] [--batches 1,8]
//
// Attention of few new tokens behind long cached contexts, as ends of prompts have it: one layer of
// Llama-3.1-8B in bf16, by the decode kernel (which cuts the context) and by the prefill kernel.
// Microseconds of a layer; `decodeRowsOf` in src/devices/cuda/ops/attend-decode.ts follows from it.
import { readFlags } from "../../tools/flags.mjs";
import { openOrGiveUp, requireBuild } from "./gpu-bench.mjs";

await requireBuild();
const { cudaFromEnvironment } = await import("../../dist/cli/cuda-environment.js");
const { fillRandom, gpuMs } = await import("../../dist/devices/cuda/ceilings.js");
const { CudaDevice } = await import("../../dist/devices/cuda/cuda-device.js");
const { CudaSession } = await import("../../dist/devices/cuda/cuda-session.js");
const { gpuText } = await import("../../dist/devices/cuda/driver/gpu.js");
const { attendDecode, decodeRowsOf } = await import("../../dist/devices/cuda/ops/attend-decode.js");
const { attendPrefill } = await import("../../dist/devices/cuda/ops/attend-prefill.js");
const { blockTokens, KernelBatch, layerCount, randomCache } = await import("./kernel-inputs.mjs");
const { readShape } = await import("./shape.mjs");

const { values: flags } = readFlags({
  options: {
    tokens: { type: "string", default: "8,16,32,64" },
    contexts: { type: "string", default: "512,2048,8192,32768" },
    batches: { type: "string", default: "1,8" },
    runs: { type: "number", default: 9, min: 1 },
  },
});
const numbers = (text) => text.split(",").map(Number);
const session = await openOrGiveUp(() =>
  CudaSession.open({ settings: cudaFromEnvironment(), warn: console.warn }),
);
const { context, gpu, stream } = session;
const device = new CudaDevice(session);
const shape = readShape();
const { heads, kvHeads, headDim, vocabulary } = shape;
const contexts = numbers(flags.contexts);
const batches = numbers(flags.batches);
console.log(gpuText(gpu));
const most = Math.max(...contexts) * Math.max(...batches) + blockTokens * Math.max(...batches);
const cache = randomCache({ device, session }, shape, most);

/** Microseconds of one launch of many. */
function microseconds(launch) {
  launch(0); // Sizes of scratch are settled outside of a capture.
  const launches = 2 * layerCount;
  const graph = stream.capture(() => {
    for (let place = 0; place < launches; place++) launch(place);
  });
  const runnable = graph.instantiate();
  const ms = gpuMs(session, () => runnable.launch(stream), flags.runs);
  for (const each of [runnable, graph]) each.destroy();
  return (ms * 1000) / launches;
}

for (const batch of batches) {
  for (const length of contexts) {
    for (const count of numbers(flags.tokens)) {
      if (count > length) continue;
      const steps = new KernelBatch({ device }, cache, {
        batch,
        context: length,
        count,
        vocabulary,
      });
      const query = device.allocate("f32", [batch * count, heads * headDim]);
      fillRandom(session, query.address, 4 * batch * count * heads * headDim, "f32");
      const out = device.allocateActivation("bf16", batch * count, heads * headDim);
      const inputAt = (place) => ({
        ...{ count: batch * count, out, query, heads, cache, layer: place % layerCount },
        scale: 1 / Math.sqrt(headDim),
        batch: steps.sets[Math.floor(place / layerCount) % steps.sets.length].batch,
      });
      const rows = (count * heads) / kvHeads;
      const decode = microseconds((place) =>
        attendDecode(context, inputAt(place), { decodeRows: rows }),
      );
      const prefill = microseconds((place) => attendPrefill(context, inputAt(place), 0));
      const chosen = rows <= decodeRowsOf(inputAt(0)) ? "decode" : "prefill";
      const row = { batch, context: length, tokens: count, rows };
      const times = { decodeUs: Number(decode.toFixed(1)), prefillUs: Number(prefill.toFixed(1)) };
      console.log(JSON.stringify({ ...row, ...times, chosen }));
      stream.synchronize();
      steps.release();
      for (const each of [query, out]) device.release(each);
    }
  }
}
device.dispose();
