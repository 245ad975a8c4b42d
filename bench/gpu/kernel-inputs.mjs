/**
 * What the kernels of a model read and write, in device memory: random, never zeros, and as much of
 * it as keeps a kernel from finding in the L2 cache what a step would not leave there. So weights
 * exist several times, as layers that take turns; activations, which the kernel before has just
 * written, once.
 *
 * T tokens · S sequences · M blocks per table
 */

import { fillRandom } from "../../dist/devices/cuda/ceilings.js";
import { CudaMatrix, rowBytes } from "../../dist/devices/cuda/memory/handles.js";

export const blockTokens = 16;

/** Layers that exist: between two uses of one, more passes than any L2 cache holds. */
export const layerCount = 6;

/** How many bytes have to pass before the same ones may be used again: beyond any L2 cache. */
const passingBytes = 200e6;

/** Matrices and vectors of a few layers, the head and the tokens' table. */
export class KernelWeights {
  /** `contextMax`: positions that the table of angles must know. */
  constructor({ device, session }, shape, contextMax) {
    const { hidden, heads, headDim, feedForward, vocabulary, qkvRows } = shape;
    // Filled where it is: gigabytes of a file's bytes would have to be made up first.
    const pack = (rows, columns) => {
      const bytes = rows * rowBytes("bf16", columns);
      const address = session.memory.allocate(bytes, "random weights");
      fillRandom(session, address, bytes, "bf16");
      return new CudaMatrix("bf16", rows, columns, address);
    };
    const ones = device.allocate("f32", [hidden]);
    device.write(ones, new Float32Array(hidden).fill(1));
    this.norm = { kind: "rms", weight: ones, epsilon: 1e-5 };
    this.layers = Array.from({ length: layerCount }, () => ({
      qkv: pack(qkvRows, hidden),
      attentionOutput: pack(hidden, heads * headDim),
      gateUp: pack(2 * feedForward, hidden),
      down: pack(hidden, feedForward),
    }));
    this.rope = device.allocate("f32", [contextMax, headDim]);
    fillRandom(session, this.rope.address, 4 * contextMax * headDim, "f32");
    this.head = pack(vocabulary, hidden);
    this.tokens = pack(vocabulary, hidden);
  }
}

/** Activations of a step of `tokens` tokens with logits of `rows` of them. */
export class KernelBuffers {
  constructor({ device, session }, shape, { tokens, rows }) {
    const { hidden, heads, headDim, feedForward, vocabulary, qkvRows } = shape;
    this.device = device;
    this.all = [];
    const f32 = (...dimensions) => {
      const tensor = this.#keep(device.allocate("f32", dimensions));
      const bytes = 4 * dimensions.reduce((product, size) => product * size);
      fillRandom(session, tensor.address, bytes, "f32");
      return tensor;
    };
    const bf16 = (count, columns) => {
      const rowsOf = this.#keep(device.allocateActivation("bf16", count, columns));
      fillRandom(session, rowsOf.address, rowsOf.bytes, "bf16");
      return rowsOf;
    };
    this.x = f32(tokens, hidden);
    this.input = bf16(tokens, hidden);
    this.qkv = f32(tokens, qkvRows);
    this.query = f32(tokens, heads * headDim);
    this.attended = bf16(tokens, heads * headDim);
    this.gateUp = f32(tokens, 2 * feedForward);
    this.activated = bf16(tokens, feedForward);
    this.gathered = f32(rows, hidden);
    this.headInput = bf16(rows, hidden);
    this.logits = f32(rows, vocabulary);
    this.drawn = this.#keep(device.allocate("i32", [rows]));
    this.draws = this.#draws(rows);
  }

  release() {
    for (const memory of this.all) this.device.release(memory);
  }

  #keep(memory) {
    this.all.push(memory);
    return memory;
  }

  #i32(...values) {
    const tensor = this.#keep(this.device.allocate("i32", [values.length]));
    this.device.write(tensor, Int32Array.from(values));
    return tensor;
  }

  /** Settings of a draw for each row, by what is asked for. */
  #draws(rows) {
    const { device } = this;
    const vector = (dtype, value) => {
      const tensor = this.#keep(device.allocate(dtype, [rows]));
      const Values = dtype === "f32" ? Float32Array : Int32Array;
      device.write(tensor, new Values(rows).fill(value));
      return tensor;
    };
    const seeds = this.#keep(device.allocate("u32", [rows, 2]));
    device.write(
      seeds,
      Uint32Array.from({ length: 2 * rows }, (_, i) => i * 2_654_435_761),
    );
    const positions = this.#i32(...Array.from({ length: rows }, (_, row) => 100 + row));
    const [off, none, all] = [vector("i32", 0), vector("f32", 0), vector("f32", 1)];
    const plain = { topK: off, topP: all, minP: none, seeds, positions };
    return {
      greedy: { ...plain, temperature: none },
      temperature: { ...plain, temperature: all },
      "top-k, top-p": {
        ...plain,
        temperature: all,
        topK: vector("i32", 50),
        topP: vector("f32", 0.9),
      },
    };
  }
}

/** A pool of random keys and values, for as many layers as there are. */
export function randomCache({ device, session }, { kvHeads, headDim }, tokens) {
  const blocks = Math.ceil(tokens / blockTokens) + 1;
  const options = { format: "bf16", layers: layerCount, blocks, blockTokens, kvHeads, headDim };
  const cache = device.allocateKvPool(options);
  fillRandom(session, cache.address, blocks * cache.bytesPerBlock, "bf16");
  return cache;
}

/** Sequences of one step, several times over: each place reads other blocks than the one before. */
export class KernelBatch {
  /** `spans`: what every sequence has: `context` tokens, the last `count` of them in this step. */
  constructor({ device }, cache, { batch, context, count, vocabulary }) {
    const perSequence = Math.ceil(context / blockTokens);
    const perStep = batch * perSequence;
    const layerBytes = (perStep * cache.bytesPerBlock) / cache.layers;
    const wanted = Math.ceil(passingBytes / layerBytes / layerCount);
    const sets = Math.max(1, Math.min(wanted, Math.floor(cache.blocks / perStep), 128));
    const ids = shuffled(cache.blocks);
    this.device = device;
    this.tokens = batch * count;
    this.spans = { batch, context, count };
    this.sets = Array.from({ length: sets }, (_, set) => {
      const table = ids.subarray(set * perStep, (set + 1) * perStep);
      return this.#step(table, perSequence);
    });
    this.rowIndices = this.#i32([batch], (sequence) => (sequence + 1) * count - 1);
    this.tokenIds = this.#i32([this.tokens], () => Math.floor(Math.random() * vocabulary));
  }

  /** As many different places of keys and values as there are layers times sets. */
  get places() {
    return this.sets.length * layerCount;
  }

  release() {
    const { rowIndices, tokenIds } = this;
    const tensors = this.sets.flatMap(({ positions, slots, batch }) => [
      ...[positions, slots, batch.queryStarts, batch.contextLengths, batch.blockTables],
    ]);
    for (const tensor of [...tensors, rowIndices, tokenIds]) this.device.release(tensor);
  }

  /** What ops of one step are told of its sequences, whose blocks are `table` [S, M]. */
  #step(table, perSequence) {
    const { batch, context, count } = this.spans;
    const first = context - count;
    const place = (token) => first + (token % count);
    const slot = (token) => {
      const block =
        table[Math.floor(token / count) * perSequence + Math.floor(place(token) / blockTokens)];
      return block * blockTokens + (place(token) % blockTokens);
    };
    return {
      positions: this.#i32([this.tokens], place),
      slots: this.#i32([this.tokens], slot),
      batch: {
        sequences: batch,
        queryStarts: this.#i32([batch + 1], (sequence) => sequence * count),
        contextLengths: this.#i32([batch], () => context),
        blockTables: this.#i32([batch, perSequence], (at) => table[at]),
        queryLengthMax: count,
        contextLengthMax: count === 1 ? replayedContext(context) : context,
      },
    };
  }

  #i32(shape, elementAt) {
    const tensor = this.device.allocate("i32", shape);
    const length = shape.reduce((product, size) => product * size);
    this.device.write(
      tensor,
      Int32Array.from({ length }, (_, at) => elementAt(at)),
    );
    return tensor;
  }
}

/** The bound of contexts that a replayed step of decoding is captured with: a power of two. */
function replayedContext(context) {
  return Math.max(512, 2 ** Math.ceil(Math.log2(context)));
}

function shuffled(count) {
  const ids = Int32Array.from({ length: count }, (_, id) => id);
  for (let i = count - 1; i > 0; i--) {
    const j = Math.floor(Math.random() * (i + 1));
    [ids[i], ids[j]] = [ids[j], ids[i]];
  }
  return ids;
}
