import { mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { expect, test } from "vitest";
import { writeSafetensors } from "#checkpoint";
import { elementCount } from "#tensor";
import { BLOCK_TYPES } from "../../bench/gguf-blocks.mjs";
import { ggufCheckpoint } from "../../src/checkpoint/gguf-checkpoint.ts";
import { readSafetensors } from "../../src/checkpoint/safetensors.ts";
import { type GgufContent, type TensorEntry, writeGguf } from "../checkpoint/gguf-writer.ts";
import { MemoryFile } from "../checkpoint/memory-file.ts";
import { drawsOf, MUTANTS, mutate, survives } from "./file-mutants.ts";

const SEEDS = [1, 2];

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

/** A GGUF whose last tensor has this type, in rows of one block. */
function ggufWith(type: { id: number; elements: number; bytes: number }): Uint8Array {
  return writeGguf({ metadata: METADATA, tensors: tensorsWith(type) });
}

const METADATA: GgufContent["metadata"] = {
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
};

function tensorsWith(type: { id: number; elements: number; bytes: number }): TensorEntry[] {
  return SHAPES.map(([name, , shape], index) =>
    index === SHAPES.length - 1
      ? {
          ...{ name, type: type.id, shape: [HIDDEN, type.elements] },
          bytes: new Uint8Array(type.bytes * HIDDEN),
        }
      : { name, type: 0, shape, bytes: onesOf(shape) },
  );
}

const gguf = ggufWith(BLOCK_TYPES.q8_0);

function openGguf(file: MemoryFile): void {
  const checkpoint = ggufCheckpoint(file);
  expect(checkpoint.tokenizer === null).toBe(checkpoint.warnings.length > 0);
  for (const weight of checkpoint.tensors.values()) {
    const { length } = weight.bytes();
    const { packed } = weight;
    if (packed === undefined) continue;
    const blocks = packed.blocks().length / packed.blockBytes;
    expect(blocks * packed.blockElements * 4).toBe(length);
  }
}

test.each(Object.entries(BLOCK_TYPES))(
  "mutated GGUFs with blocks of %s load or are refused, and have as many blocks as elements",
  (_name, type) => {
    const draw = drawsOf(type.id);
    const source = ggufWith(type);
    let loaded = 0;
    for (let mutant = 0; mutant < MUTANTS / 20; mutant++) {
      const file = new MemoryFile(mutate(source, source.length, draw), "mutant.gguf");
      if (survives(file, openGguf)) loaded += 1;
    }
    expect(loaded).toBeGreaterThan(0);
  },
);

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
