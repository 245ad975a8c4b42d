/**
 * Schemas of the fields of config.json that models are made from. Unknown fields pass: a config
 * also describes training. Both of transformers' dialects are accepted: 4 (`rope_theta`,
 * `rope_scaling`) and 5 (`rope_parameters`).
 */
import { z } from "zod";
import { EngineError, shortText, valueText } from "#base";

/** config.json after parsing. */
export type JsonConfig = Readonly<Record<string, unknown>>;

const size = z
  .int()
  .positive()
  .max(2 ** 28);
const layerCount = z
  .int()
  .positive()
  .max(2 ** 10);
const expertCount = z
  .int()
  .positive()
  .max(2 ** 12);
const tokenId = z.int().nonnegative();
const positive = z.number().positive();
const flag = z.boolean().nullish();

/** One id, several, or none. */
const tokenIds = z
  .union([tokenId, z.array(tokenId)])
  .nullish()
  .transform((ids) => (typeof ids === "number" ? [ids] : (ids ?? [])));

/** The fields of `rope_scaling` and `rope_parameters` together. */
const RopeParameters = z.looseObject({
  rope_type: z.string().nullish(),
  type: z.string().nullish(),
  rope_theta: positive.nullish(),
  partial_rotary_factor: positive.max(1).nullish(),
  factor: positive.nullish(),
  low_freq_factor: positive.nullish(),
  high_freq_factor: positive.nullish(),
  original_max_position_embeddings: size.nullish(),
  attention_factor: positive.nullish(),
  mscale: z.number().nullish(),
  mscale_all_dim: z.number().nullish(),
  beta_fast: positive.nullish(),
  beta_slow: positive.nullish(),
  truncate: flag,
  short_factor: z.array(positive).nullish(),
  long_factor: z.array(positive).nullish(),
});
export type RopeParameters = z.output<typeof RopeParameters>;

/** The fields for rope, in either dialect. */
export const RopeConfig = z.looseObject({
  max_position_embeddings: size,
  original_max_position_embeddings: size.nullish(),
  partial_rotary_factor: positive.max(1).nullish(),
  rope_theta: positive.nullish(),
  rope_scaling: RopeParameters.nullish(),
  rope_parameters: RopeParameters.nullish(),
  layer_types: z.array(z.string()).nullish(),
});
export type RopeConfig = z.output<typeof RopeConfig>;

/** Llama and the families with the same field names. */
export const DecoderConfig = RopeConfig.extend({
  model_type: z.string(),
  hidden_size: size,
  intermediate_size: size,
  num_hidden_layers: layerCount,
  num_attention_heads: size,
  num_key_value_heads: size.nullish(),
  head_dim: size.nullish(),
  vocab_size: size,
  hidden_act: z.string().default("silu"),
  rms_norm_eps: positive.default(1e-6),
  tie_word_embeddings: flag,
  attention_bias: flag,
  mlp_bias: flag,
  sliding_window: size.nullish(),
  use_sliding_window: flag,
  max_window_layers: z.int().nonnegative().nullish(),
  eos_token_id: tokenIds,
});
export type DecoderConfig = z.output<typeof DecoderConfig>;

export const Gemma2Config = DecoderConfig.extend({
  hidden_activation: z.string().nullish(),
  query_pre_attn_scalar: positive.default(256),
  attn_logit_softcapping: positive.nullish(),
  final_logit_softcapping: positive.nullish(),
});

export const MixtralConfig = DecoderConfig.extend({
  num_local_experts: expertCount,
  num_experts_per_tok: expertCount,
});

export const Qwen3MoeConfig = DecoderConfig.extend({
  num_experts: expertCount.nullish(),
  num_local_experts: expertCount.nullish(),
  num_experts_per_tok: expertCount,
  moe_intermediate_size: size,
  norm_topk_prob: z.boolean().default(false),
  decoder_sparse_step: z.int().positive().default(1),
  mlp_only_layers: z.array(z.int().nonnegative()).default([]),
});
export type Qwen3MoeConfig = z.output<typeof Qwen3MoeConfig>;

export const PhiConfig = DecoderConfig.extend({
  layer_norm_eps: positive.default(1e-5),
  qk_layernorm: flag,
});

export const OptConfig = z.looseObject({
  hidden_size: size,
  ffn_dim: size,
  num_hidden_layers: layerCount,
  num_attention_heads: size,
  vocab_size: size,
  max_position_embeddings: size,
  word_embed_proj_dim: size.nullish(),
  do_layer_norm_before: z.boolean().default(true),
  layer_norm_elementwise_affine: z.boolean().default(true),
  enable_bias: z.boolean().default(true),
  activation_function: z.string().default("relu"),
  tie_word_embeddings: z.boolean().default(true),
  eos_token_id: tokenIds,
});
export type OptConfig = z.output<typeof OptConfig>;

export const Gpt2Config = z.looseObject({
  n_embd: size,
  n_inner: size.nullish(),
  n_layer: layerCount,
  n_head: size,
  n_positions: size,
  vocab_size: size,
  layer_norm_epsilon: positive.default(1e-5),
  activation_function: z.string().default("gelu_new"),
  scale_attn_weights: z.boolean().default(true),
  scale_attn_by_inverse_layer_idx: z.boolean().default(false),
  add_cross_attention: z.boolean().default(false),
  tie_word_embeddings: z.boolean().default(true),
  eos_token_id: tokenIds,
});
export type Gpt2Config = z.output<typeof Gpt2Config>;

/** The fields that make an encoder a classifier. */
const Classifier = z.looseObject({
  architectures: z.array(z.string()).nullish(),
  id2label: z.record(z.string(), z.unknown()).nullish(),
  num_labels: z.int().positive().nullish(),
});

export const BertConfig = Classifier.extend({
  hidden_size: size,
  intermediate_size: size,
  num_hidden_layers: layerCount,
  num_attention_heads: size,
  vocab_size: size,
  max_position_embeddings: size,
  type_vocab_size: size.default(2),
  layer_norm_eps: positive.default(1e-12),
  hidden_act: z.string().default("gelu"),
  position_embedding_type: z.string().default("absolute"),
  is_decoder: z.boolean().default(false),
  add_cross_attention: z.boolean().default(false),
});
export type BertConfig = z.output<typeof BertConfig>;

export const RobertaConfig = BertConfig.extend({
  model_type: z.string(),
  pad_token_id: tokenId.default(1),
});

export const ModernBertConfig = Classifier.extend({
  hidden_size: size,
  intermediate_size: size,
  num_hidden_layers: layerCount,
  num_attention_heads: size,
  vocab_size: size,
  max_position_embeddings: size.default(8192),
  hidden_activation: z.string().default("gelu"),
  norm_eps: positive.default(1e-5),
  norm_bias: z.boolean().default(false),
  attention_bias: z.boolean().default(false),
  mlp_bias: z.boolean().default(false),
  local_attention: size.default(128),
  global_attn_every_n_layers: size.default(3),
  layer_types: z.array(z.enum(["full_attention", "sliding_attention"])).nullish(),
  global_rope_theta: positive.nullish(),
  local_rope_theta: positive.nullish(),
  rope_scaling: RopeParameters.nullish(),
  rope_parameters: z
    .looseObject({
      full_attention: RopeParameters.nullish(),
      sliding_attention: RopeParameters.nullish(),
    })
    .nullish(),
  classifier_pooling: z.enum(["cls", "mean"]).default("cls"),
  classifier_activation: z.string().default("gelu"),
  classifier_bias: z.boolean().default(false),
});
export type ModernBertConfig = z.output<typeof ModernBertConfig>;

export const NomicBertConfig = RopeConfig.extend({
  hidden_size: size,
  intermediate_size: size,
  num_hidden_layers: layerCount,
  num_attention_heads: size,
  head_dim: size.nullish(),
  vocab_size: size,
  type_vocab_size: size.default(2),
  layer_norm_eps: positive.default(1e-12),
  hidden_act: z.string().default("silu"),
  max_trained_positions: size.nullish(),
  rotary_scaling_factor: positive.nullish(),
  rotary_emb_scale_base: z.number().nullish(),
  rotary_emb_interleaved: flag,
  prenorm: flag,
  qkv_proj_bias: flag,
  mlp_fc1_bias: flag,
  mlp_fc2_bias: flag,
  parallel_block: flag,
  use_rms_norm: flag,
});
export type NomicBertConfig = z.output<typeof NomicBertConfig>;

/** A ReDrafter: apple/ml-recurrent-drafter's fields, and ours for a draft vocabulary and a base. */
export const ReDrafterConfig = z.looseObject({
  hidden_size: size,
  exit_dim: size,
  num_draft_layers: z
    .int()
    .nonnegative()
    .max(2 ** 6),
  vocab_size: size,
  rnn: z.boolean(),
  draft_vocab_size: size.nullish(),
  base_fingerprint: z.string().nullish(),
});

/** Medusa's heads: FasterDecoding/Medusa's fields, and ours for vocabulary, base and accuracies. */
export const MedusaConfig = z.looseObject({
  model_type: z.string().optional(),
  hidden_size: size.nullish(),
  vocab_size: size.nullish(),
  medusa_num_layers: z.int().min(1).max(16).nullish(),
  draft_vocab_size: size.nullish(),
  base_fingerprint: z.string().nullish(),
  /** By head, then by choice. */
  head_accuracies: z
    .array(z.array(z.number().min(0).max(1)).min(1).max(64))
    .min(1)
    .max(63)
    .nullish(),
  medusa_choices: z
    .array(z.array(z.int().min(0).max(63)).min(1).max(63))
    .min(1)
    .max(63)
    .nullish(),
});

const layerIds = z
  .array(
    z
      .int()
      .nonnegative()
      .max(2 ** 10),
  )
  .min(1)
  .max(8)
  .nullish();

/**
 * An EAGLE-3 beside the fields of its layer: those of SafeAILab/EAGLE, of SpecForge
 * (`eagle_config`) and of vLLM's speculators, and ours for a base.
 */
export const Eagle3Config = z.looseObject({
  speculators_model_type: z.string().nullish(),
  transformer_layer_config: z.record(z.string(), z.unknown()).nullish(),
  target_hidden_size: size.nullish(),
  draft_vocab_size: size.nullish(),
  eagle_aux_hidden_state_layer_ids: layerIds,
  eagle_config: z
    .looseObject({ eagle_aux_hidden_state_layer_ids: layerIds, use_aux_hidden_state: flag })
    .nullish(),
  fc_norm: flag,
  norm_before_fc: flag,
  norm_before_residual: flag,
  norm_output: flag,
  parallel_drafting: flag,
  /** Multiplies logits, which changes the likeliest token only where it is not positive. */
  logit_scale: positive.nullish(),
  base_fingerprint: z.string().nullish(),
});

/** The one field that picks an architecture. */
export const ModelTypeConfig = z.looseObject({ model_type: z.string() });

/**
 * Validates `config`, the content of `file`, by a schema. Throws CHECKPOINT_INVALID, which names
 * the first wrong field.
 */
export function parseConfig<T>(schema: z.ZodType<T>, config: JsonConfig, file = "config.json"): T {
  const parsed = schema.safeParse(config);
  if (parsed.success) return parsed.data;
  const [issue] = parsed.error.issues;
  const path = issue?.path ?? [];
  const value = path.reduce<unknown>((inside, key) => fieldOf(inside, key), config);
  throw invalidConfig(
    path.join("."),
    (issue?.message ?? "").replace("Invalid input: ", ""),
    value,
    file,
  );
}

/** The error for a field that is missing or wrong; `wanted` completes "field: ...". */
export function invalidConfig(
  field: string,
  wanted: string,
  value: unknown,
  file = "config.json",
): EngineError {
  const current = value === undefined ? "missing" : quoted(value);
  return new EngineError(
    "CHECKPOINT_INVALID",
    `Cannot read ${file}: ${field}: ${wanted}, current value is ${current}`,
    { param: field },
  );
}

/** The error for a valid config that no architecture here can run. */
export function unsupportedConfig(field: string, wanted: string, value: unknown): EngineError {
  return new EngineError(
    "UNSUPPORTED_MODEL",
    `Cannot run this model: ${field} must be ${wanted}, current value is ${quoted(value)}`,
    { param: field },
  );
}

/** A text in quotes, to distinguish "12" from 12. */
export function quoted(value: unknown): string {
  return typeof value === "string" ? JSON.stringify(shortText(value)) : valueText(value);
}

function fieldOf(value: unknown, key: PropertyKey): unknown {
  return typeof value === "object" && value !== null ? Reflect.get(value, key) : undefined;
}
