import { mkdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { type TensorToWrite, writeSafetensors } from "#checkpoint";
import { RandomNumbers } from "../contracts/device-ops/random.ts";

/** A ReDrafter's sizes, by the names of its config.json. */
export interface DrafterShape {
  readonly hidden_size: number;
  readonly vocab_size: number;
  readonly exit_dim: number;
  readonly num_draft_layers: number;
  readonly rnn: boolean;
}

/** Writes a ReDrafter with random float32 weights into a folder. */
export function writeRandomDrafter(folder: string, shape: DrafterShape, seed = 1): void {
  const { hidden_size: hidden, exit_dim: exit, num_draft_layers: blocks, vocab_size } = shape;
  const random = new RandomNumbers(seed);
  const tensor = (name: string, ...extents: number[]): TensorToWrite => {
    const count = extents.reduce((product, extent) => product * extent, 1);
    const values = random.floats(count, 1 / Math.sqrt(extents.at(-1) ?? 1));
    return { name, dtype: "f32", shape: extents, bytes: new Uint8Array(values.buffer) };
  };
  const tensors = [
    ...(shape.rnn
      ? [
          tensor("rnn_w.weight", hidden, hidden),
          tensor("rnn_u.weight", hidden, hidden),
          tensor("rnn_u.bias", hidden),
        ]
      : []),
    ...(exit === 2 * hidden
      ? []
      : [tensor("input_proj.weight", exit, 2 * hidden), tensor("input_proj.bias", exit)]),
    ...Array.from({ length: blocks }, (_, block) => [
      tensor(`lm_head.${block}.linear.weight`, exit, exit),
      tensor(`lm_head.${block}.linear.bias`, exit),
    ]).flat(),
    tensor(`lm_head.${blocks}.weight`, vocab_size, exit),
  ];
  mkdirSync(folder, { recursive: true });
  const config = { model_type: "recurrent_drafting_drafter", ...shape };
  writeFileSync(join(folder, "config.json"), JSON.stringify(config));
  writeSafetensors(join(folder, "model.safetensors"), tensors);
}

/** Medusa's sizes. */
export interface MedusaShape {
  readonly hidden: number;
  readonly vocabulary: number;
  readonly heads: number;
  readonly layers: number;
  /** Whether heads have output layers of their own, as version 1 has them. Default: true. */
  readonly outputs?: boolean;
  /** Drafted tokens; the table that maps them is not written. Default: the vocabulary. */
  readonly drafted?: number;
  /** What vLLM calls the tensors. Default: false. */
  readonly vllmNames?: boolean;
  /** Further fields of config.json. */
  readonly config?: Readonly<Record<string, unknown>>;
}

/** Writes Medusa's heads with random float32 weights into a folder. */
export function writeRandomMedusa(folder: string, shape: MedusaShape, seed = 1): void {
  const { hidden, vocabulary, heads, layers, outputs = true, drafted, vllmNames = false } = shape;
  const random = new RandomNumbers(seed);
  const tensor = (name: string, ...extents: number[]): TensorToWrite => {
    const count = extents.reduce((product, extent) => product * extent, 1);
    const values = random.floats(count, 1 / Math.sqrt(extents.at(-1) ?? 1));
    return { name, dtype: "f32", shape: extents, bytes: new Uint8Array(values.buffer) };
  };
  const tensors = Array.from({ length: heads }, (_, head) => {
    const layerOf = (layer: number): string =>
      vllmNames ? `blocks.${head}.layers.${layer}` : `${head}.${layer}.linear`;
    const output = vllmNames ? `lm_heads.${head}.weight` : `${head}.${layers}.weight`;
    return [
      ...Array.from({ length: layers }, (_, layer) => [
        tensor(`${layerOf(layer)}.weight`, hidden, hidden),
        ...(vllmNames ? [] : [tensor(`${layerOf(layer)}.bias`, hidden)]),
      ]).flat(),
      ...(outputs ? [tensor(output, drafted ?? vocabulary, hidden)] : []),
    ];
  }).flat();
  mkdirSync(folder, { recursive: true });
  const config = {
    model_type: "medusa",
    ...{ hidden_size: hidden, vocab_size: vocabulary, medusa_num_layers: layers },
    ...(drafted !== undefined && { draft_vocab_size: drafted }),
    ...shape.config,
  };
  writeFileSync(join(folder, "config.json"), JSON.stringify(config));
  writeSafetensors(join(folder, "model.safetensors"), tensors);
}

/** A Llama's sizes. */
export interface DraftModelShape {
  readonly vocabulary: number;
  readonly hidden?: number;
  readonly layers?: number;
  readonly heads?: number;
  readonly kvHeads?: number;
  /** Further fields of config.json. */
  readonly config?: Readonly<Record<string, unknown>>;
}

/** Writes a small Llama with random float32 weights, which drafts, into a folder. */
export function writeRandomDraftModel(folder: string, shape: DraftModelShape, seed = 1): void {
  const { vocabulary, hidden = 32, layers = 2, heads = 4, kvHeads = 1 } = shape;
  const headDim = 16;
  const random = new RandomNumbers(seed);
  const tensor = (name: string, ...extents: number[]): TensorToWrite => {
    const count = extents.reduce((product, extent) => product * extent, 1);
    const values = random.floats(count, 2 / Math.sqrt(extents.at(-1) ?? 1));
    return { name, dtype: "f32", shape: extents, bytes: new Uint8Array(values.buffer) };
  };
  const layerOf = (index: number): TensorToWrite[] => {
    const layer = `model.layers.${index}`;
    return [
      tensor(`${layer}.input_layernorm.weight`, hidden),
      tensor(`${layer}.self_attn.q_proj.weight`, heads * headDim, hidden),
      tensor(`${layer}.self_attn.k_proj.weight`, kvHeads * headDim, hidden),
      tensor(`${layer}.self_attn.v_proj.weight`, kvHeads * headDim, hidden),
      tensor(`${layer}.self_attn.o_proj.weight`, hidden, heads * headDim),
      tensor(`${layer}.post_attention_layernorm.weight`, hidden),
      tensor(`${layer}.mlp.gate_proj.weight`, 2 * hidden, hidden),
      tensor(`${layer}.mlp.up_proj.weight`, 2 * hidden, hidden),
      tensor(`${layer}.mlp.down_proj.weight`, hidden, 2 * hidden),
    ];
  };
  mkdirSync(folder, { recursive: true });
  const config = {
    ...{ model_type: "llama", hidden_size: hidden, intermediate_size: 2 * hidden },
    ...{ num_hidden_layers: layers, num_attention_heads: heads, num_key_value_heads: kvHeads },
    ...{ head_dim: headDim, vocab_size: vocabulary, max_position_embeddings: 64 },
    ...shape.config,
  };
  writeFileSync(join(folder, "config.json"), JSON.stringify(config));
  writeSafetensors(join(folder, "model.safetensors"), [
    tensor("model.embed_tokens.weight", vocabulary, hidden),
    ...Array.from({ length: layers }, (_, index) => layerOf(index)).flat(),
    tensor("model.norm.weight", hidden),
    tensor("lm_head.weight", vocabulary, hidden),
  ]);
}
