/** Converts a GGUF's metadata to the config.json of transformers. */
import { EngineError } from "#base";
import type { FileBytes } from "./file-bytes.ts";
import type { GgufFamily } from "./gguf-architectures.ts";
import type { GgufHeader } from "./gguf-header.ts";
import type { GgufMetadata } from "./gguf-metadata.ts";
import { ggufRopeParameters, rounded } from "./gguf-rope.ts";
import { invalidFile } from "./invalid-file.ts";
import type { JsonObject } from "./json-text.ts";

/** GGUF's `general.architecture` to the family; `llama` stands for three families. */
const FAMILIES: ReadonlyMap<string, GgufFamily> = new Map([
  ["llama", "llama"],
  ["qwen2", "qwen2"],
  ["qwen3", "qwen3"],
  ["qwen3moe", "qwen3_moe"],
  ["gemma2", "gemma2"],
  ["phi2", "phi"],
  ["phi3", "phi3"],
  ["gpt2", "gpt2"],
]);

const CLASSES: Readonly<Record<GgufFamily, string>> = {
  llama: "LlamaForCausalLM",
  mistral: "MistralForCausalLM",
  mixtral: "MixtralForCausalLM",
  qwen2: "Qwen2ForCausalLM",
  qwen3: "Qwen3ForCausalLM",
  qwen3_moe: "Qwen3MoeForCausalLM",
  gemma2: "Gemma2ForCausalLM",
  phi: "PhiForCausalLM",
  phi3: "Phi3ForCausalLM",
  gpt2: "GPT2LMHeadModel",
};

export interface GgufConfig {
  readonly family: GgufFamily;
  readonly heads: number;
  readonly kvHeads: number;
  /** As config.json, in the dialect of transformers 5. */
  readonly config: JsonObject;
}

/** Reads the configuration. Throws UNSUPPORTED_MODEL or CHECKPOINT_INVALID. */
export function ggufConfig(file: FileBytes, header: GgufHeader): GgufConfig {
  const { metadata } = header;
  const architecture = metadata.getText("general.architecture");
  const family = familyOf(metadata, architecture);
  const source: Source = { file, header, metadata, architecture };
  const heads = metadata.getCount(`${architecture}.attention.head_count`);
  const kvHeads = metadata.findCount(`${architecture}.attention.head_count_kv`) ?? heads;
  if (kvHeads < 1 || heads % kvHeads !== 0) {
    const field = `${architecture}.attention.head_count_kv`;
    const must = `must divide the ${heads} heads`;
    throw invalidFile({ path: metadata.path, field, must, actual: kvHeads });
  }
  const shape = { family, heads, kvHeads };
  const own = family === "gpt2" ? gpt2Config(source) : decoderConfig(source, shape);
  return { ...shape, config: { ...sharedConfig(source, family), ...own } };
}

interface Source {
  readonly file: FileBytes;
  readonly header: GgufHeader;
  readonly metadata: GgufMetadata;
  readonly architecture: string;
}

interface FamilyShape {
  readonly family: GgufFamily;
  readonly heads: number;
  readonly kvHeads: number;
}

function familyOf(metadata: GgufMetadata, architecture: string): GgufFamily {
  const family = FAMILIES.get(architecture);
  if (family === undefined) {
    throw new EngineError(
      "UNSUPPORTED_MODEL",
      `Cannot load ${metadata.path}: general.architecture must be one of ` +
        `${[...FAMILIES.keys()].join(", ")}, current value is ${architecture.slice(0, 100)}`,
      { param: "general.architecture" },
    );
  }
  if (family !== "llama") return family;
  if ((metadata.findCount("llama.expert_count") ?? 0) > 0) return "mixtral";
  return metadata.has("llama.attention.sliding_window") ? "mistral" : "llama";
}

function sharedConfig(source: Source, family: GgufFamily): JsonObject {
  const { metadata, header } = source;
  const token = (name: string) => metadata.findCount(`tokenizer.ggml.${name}_token_id`);
  return {
    architectures: [CLASSES[family]],
    model_type: family,
    vocab_size: vocabularySize(source),
    tie_word_embeddings: !header.tensors.has("output.weight"),
    bos_token_id: token("bos"),
    eos_token_id: token("eos"),
    pad_token_id: token("padding"),
  };
}

/** The embedding has a row for each token; padded vocabularies have more rows than tokens. */
function vocabularySize({ metadata, header }: Source): number {
  const field = "tensor token_embd.weight";
  const embedding = header.tensors.get("token_embd.weight");
  const [rows] = embedding?.shape ?? [];
  if (rows !== undefined && embedding?.shape.length === 2) return rows;
  const actual = embedding?.shape ?? "missing";
  throw invalidFile({ path: metadata.path, field, must: "must be a matrix", actual });
}

function gpt2Config({ metadata }: Source): JsonObject {
  return {
    activation_function: "gelu_new",
    n_embd: metadata.getCount("gpt2.embedding_length"),
    n_head: metadata.getCount("gpt2.attention.head_count"),
    n_inner: metadata.getCount("gpt2.feed_forward_length"),
    n_layer: metadata.getCount("gpt2.block_count"),
    n_positions: metadata.getCount("gpt2.context_length"),
    layer_norm_epsilon: rounded(metadata.getNumber("gpt2.attention.layer_norm_epsilon")),
  };
}

/** Fields with equal names in all families but GPT-2, then those of the family. */
function decoderConfig(source: Source, shape: FamilyShape): JsonObject {
  const { metadata, architecture } = source;
  const count = (key: string) => metadata.getCount(`${architecture}.${key}`);
  const hidden = count("embedding_length");
  const headDim =
    metadata.findCount(`${architecture}.attention.key_length`) ?? hidden / shape.heads;
  const rotaryDim = metadata.findCount(`${architecture}.rope.dimension_count`) ?? headDim;
  checkHeadSize(source, { headDim, rotaryDim });
  const rope = ggufRopeParameters({ ...source, headDim, rotaryDim });
  const positions = rope.original_max_position_embeddings;
  return {
    hidden_size: hidden,
    num_hidden_layers: count("block_count"),
    num_attention_heads: shape.heads,
    num_key_value_heads: shape.kvHeads,
    head_dim: headDim,
    intermediate_size: count("feed_forward_length"),
    max_position_embeddings: count("context_length"),
    rope_parameters: rope,
    ...(rotaryDim === headDim ? {} : { partial_rotary_factor: rotaryDim / headDim }),
    ...(positions === undefined ? {} : { original_max_position_embeddings: positions }),
    ...normConfig(source, shape.family),
    ...familyConfig(source, { ...shape, headDim }),
  };
}

function checkHeadSize(
  { metadata, architecture }: Source,
  size: { readonly headDim: number; readonly rotaryDim: number },
): void {
  const { headDim, rotaryDim } = size;
  const valueLength = metadata.findCount(`${architecture}.attention.value_length`) ?? headDim;
  const whole = Number.isInteger(headDim) && headDim > 0 && valueLength === headDim;
  if (whole && rotaryDim > 0 && rotaryDim <= headDim && rotaryDim % 2 === 0) return;
  throw invalidFile({
    path: metadata.path,
    field: `${architecture}.attention.key_length`,
    must: "must be whole, equal value_length, and be at least an even rope.dimension_count",
    actual: `${headDim}, ${valueLength} and ${rotaryDim}`,
  });
}

function normConfig({ metadata, architecture }: Source, family: GgufFamily): JsonObject {
  const prefix = `${architecture}.attention.layer_norm_`;
  if (family === "phi") {
    const epsilon = rounded(metadata.getNumber(`${prefix}epsilon`));
    return { layer_norm_eps: epsilon, hidden_act: "gelu_new" };
  }
  const epsilon = rounded(metadata.getNumber(`${prefix}rms_epsilon`));
  return { rms_norm_eps: epsilon, ...(family === "gemma2" ? {} : { hidden_act: "silu" }) };
}

function familyConfig(source: Source, shape: FamilyShape & { headDim: number }): JsonObject {
  const { metadata, architecture } = source;
  const find = (key: string) => metadata.findCount(`${architecture}.${key}`);
  const window = find("attention.sliding_window") || null;
  switch (shape.family) {
    case "mistral":
    case "phi3":
      return { sliding_window: window };
    case "mixtral":
      return { sliding_window: window, ...expertConfig(source) };
    case "qwen2":
    case "qwen3":
      return { sliding_window: null, use_sliding_window: false };
    case "qwen3_moe":
      return { sliding_window: null, use_sliding_window: false, ...qwenExpertConfig(source) };
    case "gemma2":
      return gemma2Config(source, shape);
    default:
      return {};
  }
}

function expertConfig({ metadata, architecture }: Source): JsonObject {
  return {
    num_local_experts: metadata.getCount(`${architecture}.expert_count`),
    num_experts_per_tok: metadata.getCount(`${architecture}.expert_used_count`),
  };
}

/** Both dialects' names for the number of experts. */
function qwenExpertConfig(source: Source): JsonObject {
  const experts = expertConfig(source);
  return {
    ...experts,
    num_experts: experts.num_local_experts,
    moe_intermediate_size: source.metadata.getCount(
      `${source.architecture}.expert_feed_forward_length`,
    ),
    norm_topk_prob: true,
    decoder_sparse_step: 1,
    mlp_only_layers: [],
  };
}

/** The one Gemma 2 whose queries are scaled by the hidden size per head is the 27B. */
const GEMMA2_27B_LAYERS = 46;

function gemma2Config(source: Source, shape: FamilyShape & { headDim: number }): JsonObject {
  const { metadata } = source;
  const layers = metadata.getCount("gemma2.block_count");
  const perHead = metadata.getCount("gemma2.embedding_length") / shape.heads;
  return {
    hidden_activation: "gelu_pytorch_tanh",
    query_pre_attn_scalar: layers === GEMMA2_27B_LAYERS ? perHead : shape.headDim,
    sliding_window: metadata.findCount("gemma2.attention.sliding_window") ?? 4096,
    attn_logit_softcapping: metadata.findNumber("gemma2.attn_logit_softcapping") ?? 50,
    final_logit_softcapping: metadata.findNumber("gemma2.final_logit_softcapping") ?? 30,
  };
}
