/**
 * What llama.cpp's converter does, in small: a Hugging Face checkpoint as GGUF. The inverse of
 * src/checkpoint's mapping, written from the other side, so that a round trip proves both.
 */

import type { Checkpoint, NamedWeight } from "#checkpoint";
import { elementCount } from "#tensor";
import { type GgufFamily, ggufNaming } from "../../src/checkpoint/gguf-architectures.ts";
import type { GgufContent, MetadataEntry, TensorEntry } from "./gguf-writer.ts";

type Metadata = Record<string, MetadataEntry>;

const ARCHITECTURES: Readonly<Record<GgufFamily, string>> = {
  llama: "llama",
  mistral: "llama",
  mixtral: "llama",
  qwen2: "qwen2",
  qwen3: "qwen3",
  qwen3_moe: "qwen3moe",
  gemma2: "gemma2",
  phi: "phi2",
  phi3: "phi3",
  gpt2: "gpt2",
};

/** Values of a weight of the fixtures, all of which are f32. */
export function floats(weight: NamedWeight): Float32Array {
  const bytes = weight.bytes();
  return new Float32Array(bytes.buffer, bytes.byteOffset, bytes.length / 4);
}

/** The checkpoint as GGUF content, f32 throughout. */
export function asGguf(checkpoint: Checkpoint): GgufContent {
  const { config } = checkpoint;
  const family = String(config.model_type) as GgufFamily; // Tests pass known fixtures only.
  const tensors = [...plainTensors(checkpoint, family), ...expertTensors(checkpoint, family)];
  const divisors = llama3Divisors(config);
  if (divisors !== null) tensors.push(tensor("rope_freqs.weight", [divisors.length], divisors));
  const prefix = ARCHITECTURES[family];
  return {
    metadata: { "general.architecture": ["string", prefix], ...metadataOf(config, prefix) },
    tensors,
  };
}

function tensor(name: string, shape: readonly number[], values: Float32Array): TensorEntry {
  const bytes = new Uint8Array(values.buffer, values.byteOffset, values.byteLength);
  return { name, type: 0, shape, bytes };
}

function plainTensors(checkpoint: Checkpoint, family: GgufFamily): TensorEntry[] {
  const naming = ggufNaming(family);
  const inverse = (names: Readonly<Record<string, string>>) =>
    new Map(Object.entries(names).map(([gguf, hf]) => [hf, gguf]));
  const model = inverse(naming.model);
  const layer = inverse(naming.layer);
  const found: TensorEntry[] = [];
  for (const weight of checkpoint.tensors.values()) {
    const [, module = "", suffix = ""] = /^(.*)(\.weight|\.bias)$/.exec(weight.name) ?? [];
    const inLayer = module.startsWith(naming.layerPrefix)
      ? /^(\d+)\.(.*)$/.exec(module.slice(naming.layerPrefix.length))
      : null;
    const part = inLayer ? layer.get(inLayer[2] ?? "") : model.get(module);
    if (part === undefined) continue;
    const name = (inLayer ? `blk.${inLayer[1]}.` : "") + part + suffix;
    found.push(converted(weight, { name, part, family, config: checkpoint.config }));
  }
  return found;
}

interface Conversion {
  readonly name: string;
  readonly part: string;
  readonly family: GgufFamily;
  readonly config: Readonly<Record<string, unknown>>;
}

function converted(weight: NamedWeight, to: Conversion): TensorEntry {
  const values = floats(weight);
  if (ARCHITECTURES[to.family] === "llama" && (to.part === "attn_q" || to.part === "attn_k")) {
    const heads = to.config[to.part === "attn_q" ? "num_attention_heads" : "num_key_value_heads"];
    return tensor(to.name, weight.shape, interleaved(values, weight.shape, Number(heads)));
  }
  if (to.family === "gemma2" && to.part.endsWith("_norm")) {
    return tensor(
      to.name,
      weight.shape,
      values.map((value) => value + 1),
    );
  }
  const [rows = 0, columns = 0] = weight.shape;
  if (to.family !== "gpt2" || !/c_(attn|proj|fc)\.weight$/.test(weight.name)) {
    return tensor(to.name, weight.shape, values);
  }
  const out = values.map((_, at) => values[(at % rows) * columns + Math.floor(at / rows)] ?? 0);
  return tensor(to.name, [columns, rows], out);
}

/** Row j·D/2 + i of each head (j in 0, 1) goes to row 2·i + j. */
function interleaved(values: Float32Array, shape: readonly number[], heads: number): Float32Array {
  const [rows = 0, columns = 1] = shape;
  const headRows = rows / heads;
  const out = new Float32Array(values.length);
  for (let head = 0; head < heads; head++) {
    for (let i = 0; i < headRows / 2; i++) {
      for (const j of [0, 1]) {
        const from = head * headRows + j * (headRows / 2) + i;
        const to = head * headRows + 2 * i + j;
        out.set(values.subarray(from * columns, (from + 1) * columns), to * columns);
      }
    }
  }
  return out;
}

function expertTensors(checkpoint: Checkpoint, family: GgufFamily): TensorEntry[] {
  const { layerPrefix, experts = {} } = ggufNaming(family);
  const layers = Number(checkpoint.config.num_hidden_layers);
  const count = Number(checkpoint.config.num_local_experts);
  const found: TensorEntry[] = [];
  for (let layer = 0; layer < layers; layer++) {
    for (const [part, pattern] of Object.entries(experts)) {
      const weights = Array.from({ length: count }, (_, expert) => {
        const name = `${layerPrefix}${layer}.${pattern.replace("*", String(expert))}.weight`;
        const weight = checkpoint.tensors.get(name);
        if (weight === undefined) throw new Error(`the fixture lacks ${name}`);
        return weight;
      });
      const shape = [count, ...(weights[0]?.shape ?? [])];
      const values = new Float32Array(elementCount(shape));
      weights.forEach((weight, expert) => {
        values.set(floats(weight), (expert * values.length) / count);
      });
      found.push(tensor(`blk.${layer}.${part}.weight`, shape, values));
    }
  }
  return found;
}

/** config.json's fields to GGUF's keys, after the architecture's prefix. */
const KEYS: readonly (readonly [from: string, to: string, kind: "u32" | "f32"])[] = [
  ["hidden_size", "embedding_length", "u32"],
  ["n_embd", "embedding_length", "u32"],
  ["num_hidden_layers", "block_count", "u32"],
  ["n_layer", "block_count", "u32"],
  ["num_attention_heads", "attention.head_count", "u32"],
  ["n_head", "attention.head_count", "u32"],
  ["num_key_value_heads", "attention.head_count_kv", "u32"],
  ["head_dim", "attention.key_length", "u32"],
  ["intermediate_size", "feed_forward_length", "u32"],
  ["max_position_embeddings", "context_length", "u32"],
  ["n_positions", "context_length", "u32"],
  ["sliding_window", "attention.sliding_window", "u32"],
  ["num_local_experts", "expert_count", "u32"],
  ["num_experts_per_tok", "expert_used_count", "u32"],
  ["moe_intermediate_size", "expert_feed_forward_length", "u32"],
  ["rms_norm_eps", "attention.layer_norm_rms_epsilon", "f32"],
  ["layer_norm_eps", "attention.layer_norm_epsilon", "f32"],
  ["layer_norm_epsilon", "attention.layer_norm_epsilon", "f32"],
  ["attn_logit_softcapping", "attn_logit_softcapping", "f32"],
  ["final_logit_softcapping", "final_logit_softcapping", "f32"],
];

function metadataOf(config: Readonly<Record<string, unknown>>, prefix: string): Metadata {
  const metadata: Metadata = {};
  for (const [from, to, kind] of KEYS) {
    const value = config[from];
    if (typeof value === "number") metadata[`${prefix}.${to}`] = [kind, value];
  }
  if (prefix === "gpt2") metadata["gpt2.feed_forward_length"] = ["u32", 4 * Number(config.n_embd)];
  const rope = ropeOf(config);
  if (rope !== null) {
    metadata[`${prefix}.rope.freq_base`] = ["f32", Number(rope.rope_theta)];
    const partial = Number(rope.partial_rotary_factor ?? 1);
    const headDim = Number(config.hidden_size) / Number(config.num_attention_heads);
    if (partial !== 1) metadata[`${prefix}.rope.dimension_count`] = ["u32", partial * headDim];
  }
  for (const [from, to] of [
    ["bos", "bos"],
    ["eos", "eos"],
    ["pad", "padding"],
  ] as const) {
    const id = config[`${from}_token_id`];
    if (typeof id === "number") metadata[`tokenizer.ggml.${to}_token_id`] = ["u32", id];
  }
  return metadata;
}

function ropeOf(config: Readonly<Record<string, unknown>>): Record<string, unknown> | null {
  const rope = config.rope_parameters;
  return typeof rope === "object" && rope !== null ? { ...rope } : null;
}

/** Llama 3's scaling as the table that the converter stores instead of the parameters. */
function llama3Divisors(config: Readonly<Record<string, unknown>>): Float32Array | null {
  const rope = ropeOf(config);
  if (rope?.rope_type !== "llama3") return null;
  const [factor, low, high, original, theta] = [
    ...["factor", "low_freq_factor", "high_freq_factor", "original_max_position_embeddings"],
    "rope_theta",
  ].map((key) => Number(rope[key])) as [number, number, number, number, number];
  const dim = Number(config.head_dim);
  return Float32Array.from({ length: dim / 2 }, (_, pair) => {
    const wavelength = 2 * Math.PI * theta ** ((2 * pair) / dim);
    if (wavelength < original / high) return 1;
    if (wavelength > original / low) return factor;
    const smooth = (original / wavelength - low) / (high - low);
    return 1 / ((1 - smooth) / factor + smooth);
  });
}
