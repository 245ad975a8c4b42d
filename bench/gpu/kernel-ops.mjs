/**
 * The ops of one step of a Llama, in their order, each with what it takes at least. `run(place)`
 * enqueues an op on the inputs of that place: layers and blocks take turns.
 *
 * Bytes are counted once for what an op must read and once for what it must write.
 */

import { layerCount } from "./kernel-inputs.mjs";
import { attentionFLOPs } from "./shape.mjs";

const bf16 = 2;
const f32 = 4;

/** A product [rows, columns] of `count` rows, whose results are added to `out` or replace it. */
function product(count, weight, accumulate) {
  const { rows, columns } = weight;
  const out = (accumulate ? 2 : 1) * f32 * count * rows;
  return {
    bytes: weight.bytes + bf16 * count * columns + out,
    flops: 2 * count * rows * columns,
  };
}

/** Every op: its name, how often a step runs it, its bytes and operations, and a way to run it. */
export function opsOf({ device, shape, weights, buffers, cache, batch }) {
  const parts = { device, shape, weights, buffers, cache, batch };
  return [embedOp(parts), ...layerOps(parts), ...headOps(parts)];
}

/** Enqueues a whole step, layer by layer, as the decoder does. */
export function enqueueStep(ops, layers) {
  const once = (part) => {
    for (const op of ops) if (op.part === part) op.run(0);
  };
  once("start");
  const inLayer = ops.filter(({ part }) => part === "layer");
  for (let layer = 0; layer < layers; layer++) for (const op of inLayer) op.run(layer);
  once("end");
}

function embedOp({ device, shape, weights, buffers, batch }) {
  const count = batch.tokens;
  const input = { count, out: buffers.x, ids: batch.tokenIds, table: weights.tokens };
  return {
    ...{ name: "embed", part: "start", bytes: count * shape.hidden * (bf16 + f32), flops: 0 },
    run: () => device.embed(input),
  };
}

/** One layer; what has several places takes them in turn. */
function layerOps(parts) {
  const { device, shape, weights, buffers, batch } = parts;
  const count = batch.tokens;
  const layerOf = (place) => weights.layers[place % layerCount];
  const norm = () => device.norm({ count, out: buffers.input, x: buffers.x, ...weights.norm });
  const normBytes = count * shape.hidden * (f32 + bf16);
  const [first] = weights.layers;
  const linear = (name, matrix, options) => ({
    ...{ name, part: "layer", ...product(count, first[matrix], options.accumulate === true) },
    run: (place) => device.linear({ count, weight: layerOf(place)[matrix], ...options }),
  });
  const { x, input, qkv, attended, activated } = buffers;
  return [
    { name: "norm", part: "layer", bytes: normBytes, flops: 0, run: norm },
    linear("linear qkv", "qkv", { out: qkv, x: input }),
    ropeOp(parts),
    attentionOp(parts),
    linear("linear o", "attentionOutput", { out: x, x: attended, accumulate: true }),
    { name: "norm (second)", part: "layer", bytes: normBytes, flops: 0, run: norm },
    ...gateUpOps(parts, layerOf),
    linear("linear down", "down", { out: x, x: activated, accumulate: true }),
  ];
}

function ropeOp({ device, shape, weights, buffers, cache, batch }) {
  const { heads, kvHeads, headDim, qkvRows } = shape;
  const count = batch.tokens;
  const kvBytes = 2 * kvHeads * headDim * bf16;
  return {
    ...{ name: "ropeKvWrite", part: "layer", flops: 0 },
    bytes: count * (qkvRows * f32 + heads * headDim * f32 + kvBytes),
    run: (place) => {
      const { positions, slots } = batch.sets[Math.floor(place / layerCount) % batch.sets.length];
      device.ropeKvWrite({
        ...{ count, qkv: buffers.qkv, query: buffers.query, heads, cache },
        ...{ layer: place % layerCount, positions, slots, rope: weights.rope },
      });
    },
  };
}

function attentionOp({ device, shape, buffers, cache, batch }) {
  const { heads, kvHeads, headDim } = shape;
  const { batch: sequences, context, count: perSequence } = batch.spans;
  const count = batch.tokens;
  const rowBytes = count * heads * headDim * (f32 + bf16);
  return {
    ...{ name: "pagedAttention", part: "layer" },
    bytes: sequences * context * 2 * kvHeads * headDim * bf16 + rowBytes,
    flops: sequences * attentionFLOPs(shape, context, perSequence),
    run: (place) =>
      device.pagedAttention({
        ...{ count, out: buffers.attended, query: buffers.query, heads, cache },
        ...{ layer: place % layerCount, scale: 1 / Math.sqrt(headDim) },
        batch: batch.sets[Math.floor(place / layerCount) % batch.sets.length].batch,
      }),
  };
}

/** One op where the device has one for both, else two. */
function gateUpOps({ device, shape, weights, buffers, batch }, layerOf) {
  const count = batch.tokens;
  const { input, gateUp, activated } = buffers;
  const { feedForward } = shape;
  const { bytes, flops } = product(count, weights.layers[0].gateUp, false);
  const activatedBytes = count * feedForward * bf16;
  const kind = "silu";
  if (device.linearActivate !== undefined) {
    const fused = bytes - count * 2 * feedForward * f32 + activatedBytes;
    return [
      {
        ...{ name: "linearActivate", part: "layer", bytes: fused, flops },
        run: (place) =>
          device.linearActivate({
            ...{ count, kind, gated: true, out: activated, x: input, scratch: gateUp },
            weight: layerOf(place).gateUp,
          }),
      },
    ];
  }
  return [
    {
      ...{ name: "linear gate/up", part: "layer", bytes, flops },
      run: (place) =>
        device.linear({ count, out: gateUp, x: input, weight: layerOf(place).gateUp }),
    },
    {
      ...{ name: "activate", part: "layer", flops: 0 },
      bytes: count * 2 * feedForward * f32 + activatedBytes,
      run: () => device.activate({ count, kind, out: activated, x: gateUp, gated: true }),
    },
  ];
}

/** What follows the layers, for the last row of every sequence. */
function headOps({ device, shape, weights, buffers, batch }) {
  const count = batch.spans.batch;
  const { x, gathered, headInput, logits, drawn, draws } = buffers;
  const { hidden, vocabulary } = shape;
  const sample = (how, part) => ({
    ...{ name: `sample ${how}`, part, bytes: count * vocabulary * f32, flops: 0 },
    run: () => device.sample({ count, logits, out: drawn, ...draws[how] }),
  });
  return [
    {
      ...{ name: "gatherRows", part: "end", bytes: count * hidden * 2 * f32, flops: 0 },
      run: () => device.gatherRows({ count, out: gathered, x, indices: batch.rowIndices }),
    },
    {
      ...{ name: "norm (final)", part: "end", bytes: count * hidden * (f32 + bf16), flops: 0 },
      run: () => device.norm({ count, out: headInput, x: gathered, ...weights.norm }),
    },
    {
      ...{ name: "linear head", part: "end", ...product(count, weights.head, false) },
      run: () => device.linear({ count, out: logits, x: headInput, weight: weights.head }),
    },
    sample("greedy", "end"),
    sample("temperature", "apart"),
    sample("top-k, top-p", "apart"),
  ];
}
