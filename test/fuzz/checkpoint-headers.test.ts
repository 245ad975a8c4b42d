import { mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { expect, test } from "vitest";
import { EngineError, philox, seedFrom } from "#base";
import { writeSafetensors } from "#checkpoint";
import { elementCount } from "#tensor";
import { ggufCheckpoint } from "../../src/checkpoint/gguf-checkpoint.ts";
import { readSafetensors } from "../../src/checkpoint/safetensors.ts";
import { writeGguf } from "../checkpoint/gguf-writer.ts";
import { MemoryFile } from "../checkpoint/memory-file.ts";

/** Mutants of each format. More: PERIGEE_FUZZ=1000000. */
const MUTANTS = Number(process.env.PERIGEE_FUZZ ?? 10_000);
const SEEDS = [1, 2];

/** Values that break readers which trust them. */
const EXTREMES = [
  0n,
  1n,
  0x7fffffffn,
  0xffffffffn,
  2n ** 53n,
  2n ** 62n,
  2n ** 63n,
  2n ** 64n - 1n,
];

/** A stream of 32-bit draws. */
function drawsOf(seed: number): (below: number) => number {
  let counter = 0;
  return (below) => {
    const [word] = philox([counter++, 0, 0, 0], seedFrom(seed));
    return word % below;
  };
}

/** One to four changes within the head: flipped bits, extremes, cuts, copies, other digits. */
function mutate(
  source: Uint8Array,
  headBytes: number,
  draw: (below: number) => number,
): Uint8Array {
  let bytes = source.slice();
  for (let change = draw(4) + 1; change > 0; change--) {
    const at = draw(headBytes);
    const kind = draw(6);
    if (kind === 0) bytes[at] = (bytes[at] ?? 0) ^ (1 << draw(8));
    else if (kind === 1) bytes[at] = draw(256);
    else if (kind === 2) writeExtreme(bytes, at, draw);
    else if (kind === 3) bytes.copyWithin(at, draw(headBytes), draw(headBytes));
    else if (kind === 4) bytes[at] = 0x30 + draw(10);
    else if (draw(8) === 0) bytes = bytes.slice(0, draw(bytes.length));
    if (bytes.length < headBytes) break;
  }
  return bytes;
}

function writeExtreme(bytes: Uint8Array, at: number, draw: (below: number) => number): void {
  const value = EXTREMES[draw(EXTREMES.length)] ?? 0n;
  if (at + 8 <= bytes.length) new DataView(bytes.buffer).setBigUint64(at, value, true);
}

/** Opens and reads a mutant. True if it loaded; throws what is no answer to a broken file. */
function survives(file: MemoryFile, open: (file: MemoryFile) => void): boolean {
  try {
    open(file);
    return true;
  } catch (error) {
    const answered =
      error instanceof EngineError &&
      (error.code === "CHECKPOINT_INVALID" || error.code === "UNSUPPORTED_MODEL");
    if (!answered) throw error;
    expect(error.message).toContain(file.path);
    return false;
  }
}

const HIDDEN = 8;
const VOCABULARY = ["<unk>", "<s>", "</s>", "a", "b", "ab"];

/** One layer of a Llama with 2 heads, small enough for a mutant to be cheap. */
const SHAPES: readonly (readonly [gguf: string, hf: string, shape: readonly number[]])[] = [
  ["token_embd.weight", "model.embed_tokens.weight", [VOCABULARY.length, HIDDEN]],
  ["output_norm.weight", "model.norm.weight", [HIDDEN]],
  ["rope_freqs.weight", "rope_freqs", [2]],
  ["blk.0.attn_norm.weight", "model.layers.0.input_layernorm.weight", [HIDDEN]],
  ["blk.0.attn_q.weight", "model.layers.0.self_attn.q_proj.weight", [HIDDEN, HIDDEN]],
  ["blk.0.attn_k.weight", "model.layers.0.self_attn.k_proj.weight", [HIDDEN, HIDDEN]],
  ["blk.0.ffn_down.weight", "model.layers.0.mlp.down_proj.weight", [HIDDEN, 32]],
];

/** At least the size of all elements, so that changes before it hit the head. */
const SHAPES_BYTES = 4 * SHAPES.reduce((sum, [, , shape]) => sum + elementCount(shape), 0);

/** Values of 1, which as `rope_freqs` mean no scaling. */
function onesOf(shape: readonly number[]): Uint8Array {
  return new Uint8Array(new Float32Array(elementCount(shape)).fill(1).buffer);
}

const folder = mkdtempSync(join(tmpdir(), "perigee-fuzz-"));
const path = join(folder, "small.safetensors");
writeSafetensors(
  path,
  SHAPES.map(([, name, shape]) => ({ name, dtype: "f32", shape, bytes: onesOf(shape) })),
  { format: "pt" },
);
const safetensors = new Uint8Array(readFileSync(path));
rmSync(folder, { recursive: true });

function openSafetensors(file: MemoryFile): void {
  const { weights, integers } = readSafetensors(file);
  for (const weight of weights.values()) weight.bytes();
  for (const table of integers.values()) table.values();
}

const gguf = writeGguf({
  metadata: {
    "general.architecture": ["string", "llama"],
    "general.alignment": ["u32", 32],
    "llama.embedding_length": ["u32", HIDDEN],
    "llama.block_count": ["u32", 1],
    "llama.attention.head_count": ["u32", 2],
    "llama.attention.head_count_kv": ["u32", 2],
    "llama.feed_forward_length": ["u32", 32],
    "llama.context_length": ["u32", 64],
    "llama.attention.layer_norm_rms_epsilon": ["f32", 1e-5],
    "tokenizer.ggml.model": ["string", "llama"],
    "tokenizer.ggml.tokens": ["strings", VOCABULARY],
    "tokenizer.ggml.scores": ["f32s", [0, 0, 0, -1, -2, -3]],
    "tokenizer.ggml.token_type": ["i32s", [2, 3, 3, 1, 1, 1]],
    "tokenizer.ggml.bos_token_id": ["u32", 1],
    "tokenizer.chat_template": ["string", "{{ messages }}"],
  },
  tensors: SHAPES.map(([name, , shape], index) =>
    index === SHAPES.length - 1
      ? { name, type: 8, shape, bytes: new Uint8Array(34 * HIDDEN) }
      : { name, type: 0, shape, bytes: onesOf(shape) },
  ),
});

function openGguf(file: MemoryFile): void {
  const checkpoint = ggufCheckpoint(file);
  expect(checkpoint.tokenizer === null).toBe(checkpoint.warnings.length > 0);
  for (const weight of checkpoint.tensors.values()) weight.bytes();
}

test.for(SEEDS)("mutated safetensors headers load or are refused (seed %i)", (seed) => {
  const draw = drawsOf(seed);
  const headBytes = safetensors.length - SHAPES_BYTES;
  let loaded = 0;
  for (let mutant = 0; mutant < MUTANTS / SEEDS.length; mutant++) {
    const bytes = mutate(safetensors, headBytes, draw);
    const file = new MemoryFile(bytes, "mutant.safetensors");
    if (survives(file, openSafetensors)) loaded += 1;
    expect(file.largestReadBytes).toBeLessThanOrEqual(bytes.length);
  }
  expect(loaded).toBeLessThan(MUTANTS / SEEDS.length);
});

test.for(SEEDS)("mutated GGUF headers load or are refused (seed %i)", (seed) => {
  const draw = drawsOf(seed);
  const headBytes = gguf.length - SHAPES_BYTES;
  const before = process.memoryUsage();
  let loaded = 0;
  for (let mutant = 0; mutant < MUTANTS / SEEDS.length; mutant++) {
    const file = new MemoryFile(mutate(gguf, headBytes, draw), "mutant.gguf");
    if (survives(file, openGguf)) loaded += 1;
  }
  expect(loaded).toBeGreaterThan(0);
  // A count that was believed shows here: the files have 3 kB.
  expect(process.memoryUsage().rss - before.rss).toBeLessThan(200e6);
});
