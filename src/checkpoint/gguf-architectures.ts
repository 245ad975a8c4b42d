/**
 * Maps GGUF's names of architectures and weights to transformers'. One table for each family;
 * a new family is a table here and a mapping in gguf-config.ts.
 */

/** The families of transformers that GGUF files are opened as. */
export type GgufFamily =
  | "llama"
  | "mistral"
  | "mixtral"
  | "qwen2"
  | "qwen3"
  | "qwen3_moe"
  | "gemma2"
  | "phi"
  | "phi3"
  | "gpt2";

/** GGUF's names of parts, without `.weight` or `.bias`, to transformers' names. */
export type Names = Readonly<Record<string, string>>;

export interface GgufNaming {
  /** Parts outside of the layers. */
  readonly model: Names;
  /** Prefix of a layer's number. */
  readonly layerPrefix: string;
  /** Parts of a layer. */
  readonly layer: Names;
  /** Parts of a layer that hold all experts at once; `*` is replaced by the expert's number. */
  readonly experts?: Names;
}

const DECODER_MODEL: Names = {
  token_embd: "model.embed_tokens",
  output_norm: "model.norm",
  output: "lm_head",
};

const ATTENTION: Names = {
  attn_norm: "input_layernorm",
  attn_q: "self_attn.q_proj",
  attn_k: "self_attn.k_proj",
  attn_v: "self_attn.v_proj",
  attn_output: "self_attn.o_proj",
};

const GATED_MLP: Names = {
  ffn_gate: "mlp.gate_proj",
  ffn_up: "mlp.up_proj",
  ffn_down: "mlp.down_proj",
};

const HEAD_NORMS: Names = { attn_q_norm: "self_attn.q_norm", attn_k_norm: "self_attn.k_norm" };
const FFN_NORM: Names = { ffn_norm: "post_attention_layernorm" };

function decoder(layer: Names, experts: Names = {}): GgufNaming {
  return { model: DECODER_MODEL, layerPrefix: "model.layers.", layer, experts };
}

const LLAMA = decoder({ ...ATTENTION, ...FFN_NORM, ...GATED_MLP });

const NAMINGS: Readonly<Record<GgufFamily, GgufNaming>> = {
  llama: LLAMA,
  mistral: LLAMA,
  qwen2: LLAMA,
  qwen3: decoder({ ...ATTENTION, ...HEAD_NORMS, ...FFN_NORM, ...GATED_MLP }),
  mixtral: decoder(
    { ...ATTENTION, ...FFN_NORM, ffn_gate_inp: "block_sparse_moe.gate" },
    {
      ffn_gate_exps: "block_sparse_moe.experts.*.w1",
      ffn_down_exps: "block_sparse_moe.experts.*.w2",
      ffn_up_exps: "block_sparse_moe.experts.*.w3",
    },
  ),
  qwen3_moe: decoder(
    { ...ATTENTION, ...HEAD_NORMS, ...FFN_NORM, ffn_gate_inp: "mlp.gate" },
    {
      ffn_gate_exps: "mlp.experts.*.gate_proj",
      ffn_down_exps: "mlp.experts.*.down_proj",
      ffn_up_exps: "mlp.experts.*.up_proj",
    },
  ),
  gemma2: decoder({
    ...ATTENTION,
    ...GATED_MLP,
    post_attention_norm: "post_attention_layernorm",
    ffn_norm: "pre_feedforward_layernorm",
    post_ffw_norm: "post_feedforward_layernorm",
  }),
  phi: {
    model: { ...DECODER_MODEL, output_norm: "model.final_layernorm" },
    layerPrefix: "model.layers.",
    layer: {
      ...ATTENTION,
      attn_output: "self_attn.dense",
      ffn_up: "mlp.fc1",
      ffn_down: "mlp.fc2",
    },
  },
  phi3: decoder({
    ...ATTENTION,
    ...FFN_NORM,
    attn_qkv: "self_attn.qkv_proj",
    ffn_up: "mlp.gate_up_proj",
    ffn_down: "mlp.down_proj",
  }),
  gpt2: {
    model: {
      token_embd: "transformer.wte",
      position_embd: "transformer.wpe",
      output_norm: "transformer.ln_f",
      output: "lm_head",
    },
    layerPrefix: "transformer.h.",
    layer: {
      attn_norm: "ln_1",
      attn_qkv: "attn.c_attn",
      attn_output: "attn.c_proj",
      ffn_norm: "ln_2",
      ffn_up: "mlp.c_fc",
      ffn_down: "mlp.c_proj",
    },
  },
};

/** The table of a family. */
export function ggufNaming(family: GgufFamily): GgufNaming {
  return NAMINGS[family];
}

/** Looks a part up. Null for parts that are not in the table, `constructor` among them. */
export function nameOf(names: Names | undefined, part: string): string | null {
  return names !== undefined && Object.hasOwn(names, part) ? (names[part] ?? null) : null;
}

/** The parts of a tensor's name. */
export interface GgufPart {
  /** Null outside of the layers. */
  readonly layer: number | null;
  /** E.g. `attn_q`. */
  readonly part: string;
  /** `.weight`, `.bias`, or nothing. */
  readonly suffix: string;
}

/** `blk.3.attn_q.weight` is layer 3, part `attn_q`, suffix `.weight`. */
export function ggufPartOf(name: string): GgufPart {
  const match = /^(?:blk\.(\d{1,6})\.)?(.*?)(\.weight|\.bias)?$/s.exec(name);
  const [, layer, part = name, suffix = ""] = match ?? [];
  return { layer: layer === undefined ? null : Number(layer), part, suffix };
}
