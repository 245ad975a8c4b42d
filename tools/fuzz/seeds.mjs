/** Small whole checkpoints, one a folder, of which mutants are made. */
import { mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { GGUF_TYPES, ggufFile } from "./gguf-file.mjs";
import { QUANTIZED, quantized } from "./quantized-modules.mjs";

const SIZES = {
  hidden_size: 32,
  intermediate_size: 32,
  num_hidden_layers: 2,
  num_attention_heads: 2,
  num_key_value_heads: 1,
  head_dim: 16,
  vocab_size: 512,
  max_position_embeddings: 128,
  eos_token_id: 2,
  torch_dtype: "float32",
};
const PHI3_FACTORS = Array.from({ length: 8 }, (_, index) => 1 + index / 4);

/** By folder: config.json, and the tokenizer of test/fixtures that goes with it. */
const CONFIGS = {
  llama: {
    config: {
      ...{ ...SIZES, model_type: "llama", rms_norm_eps: 1e-6, hidden_act: "silu" },
      rope_scaling: {
        ...{ rope_type: "llama3", factor: 8, low_freq_factor: 1, high_freq_factor: 4 },
        original_max_position_embeddings: 64,
      },
    },
    tokenizer: "llama3-style-byte-bpe",
    shards: 2,
  },
  phi3: {
    config: {
      ...{ ...SIZES, model_type: "phi3", original_max_position_embeddings: 64 },
      rope_scaling: { type: "longrope", short_factor: PHI3_FACTORS, long_factor: PHI3_FACTORS },
    },
    tokenizer: "llama2-style-sp-bpe",
  },
  gemma2: {
    config: {
      ...{ ...SIZES, model_type: "gemma2", sliding_window: 16, query_pre_attn_scalar: 16 },
      ...{ attn_logit_softcapping: 50, final_logit_softcapping: 30 },
      layer_types: ["sliding_attention", "full_attention"],
    },
    tokenizer: "unigram-metaspace",
  },
  "qwen3-moe": {
    config: {
      ...{ ...SIZES, model_type: "qwen3_moe", num_experts: 4, num_experts_per_tok: 2 },
      ...{ moe_intermediate_size: 16, norm_topk_prob: true, mlp_only_layers: [] },
    },
    tokenizer: "gpt2-byte-bpe",
  },
  gpt2: {
    config: {
      ...{ model_type: "gpt2", n_embd: 32, n_layer: 2, n_head: 2, n_positions: 128 },
      ...{ vocab_size: 512, eos_token_id: 2, activation_function: "gelu_new" },
    },
  },
  opt: {
    config: {
      ...{ model_type: "opt", hidden_size: 32, ffn_dim: 32, num_hidden_layers: 2 },
      ...{ num_attention_heads: 2, vocab_size: 512, max_position_embeddings: 128 },
    },
  },
  bert: {
    config: {
      ...{ model_type: "bert", hidden_size: 32, intermediate_size: 32, num_hidden_layers: 2 },
      ...{ num_attention_heads: 2, vocab_size: 512, max_position_embeddings: 128 },
    },
    tokenizer: "bert-wordpiece",
    isEncoder: true,
  },
};

const TEMPLATE =
  "{% for message in messages %}{{ '<' + message['role'] + '>' + message['content'] }}" +
  "{% endfor %}{% if add_generation_prompt %}{{ '<assistant>' }}{% endif %}";

const TOKENIZER_CONFIG = {
  ...{ bos_token: "<s>", eos_token: { content: "</s>", special: true }, add_bos_token: true },
  ...{ chat_template: TEMPLATE, model_max_length: 128, tokenizer_class: "PreTrainedTokenizerFast" },
};

/** Writes all seeds below `folder`; returns their names. `modules` are those of a build. */
export async function writeSeeds(folder, modules) {
  for (const [name, seed] of Object.entries(CONFIGS)) {
    const directory = join(folder, name);
    mkdirSync(directory, { recursive: true });
    const write = (file, value) => writeFileSync(join(directory, file), JSON.stringify(value));
    write("config.json", seed.config);
    write("generation_config.json", { eos_token_id: [2], temperature: 0.7, top_k: 20, top_p: 0.9 });
    writeWeights(directory, await weightsOf(seed, modules), seed.shards ?? 1, modules);
    if (seed.tokenizer === undefined) continue;
    write("tokenizer.json", smallTokenizer(seed.tokenizer));
    write("tokenizer_config.json", TOKENIZER_CONFIG);
    write("special_tokens_map.json", { unk_token: "<unk>" });
    if (name === "phi3") writeFileSync(join(directory, "chat_template.jinja"), TEMPLATE);
  }
  for (const [name, write] of Object.entries(DRAFTERS)) await write(join(folder, name), modules);
  for (const type of GGUF_TYPES) {
    const directory = join(folder, `gguf-${type}`);
    mkdirSync(directory, { recursive: true });
    writeFileSync(join(directory, "model.gguf"), ggufFile(type));
  }
  for (const [name, method] of Object.entries(QUANTIZED)) {
    await writeQuantized(join(folder, name), method, modules);
  }
  const ggufs = GGUF_TYPES.map((type) => `gguf-${type}`);
  return [CONFIGS, DRAFTERS, QUANTIZED].flatMap(Object.keys).concat(ggufs);
}

/** A Llama whose matrices in layers have 4 or 8 bits. */
async function writeQuantized(directory, method, modules) {
  const { config } = CONFIGS.llama;
  const tensors = {};
  for (const { name, dtype, shape, bytes } of await weightsOf({ config }, modules)) {
    const raw = { dtype: dtype.toUpperCase(), shape, bytes: Buffer.from(bytes()) };
    const isMatrix = /layers\..*_proj\.weight$/.test(name);
    Object.assign(tensors, isMatrix ? quantized(method, name, shape) : { [name]: raw });
  }
  writeFiles(directory, { ...config, quantization_config: method.config }, tensors);
}

/** The seeds that are no models, by kind: drafters of the seed `DRAFTED`. */
export const DRAFTERS = {
  ...{ redrafter: writeReDrafter, medusa: writeMedusa },
  ...{ "draft-model": writeDraftModel, eagle3: writeEagle3 },
};
export const DRAFTED = "llama";

/** An EAGLE-3 in the layout of speculators, with all norms but one, and a draft vocabulary. */
function writeEagle3(directory) {
  const { hidden_size: hidden, intermediate_size: inner } = SIZES;
  const [drafted, heads, headDim] = [64, 2, 16];
  const config = {
    speculators_model_type: "eagle3",
    transformer_layer_config: {
      ...{ ...SIZES, model_type: "llama", rms_norm_eps: 1e-6, hidden_act: "silu" },
      ...{ num_hidden_layers: 1, num_attention_heads: heads, num_key_value_heads: 1 },
    },
    ...{ draft_vocab_size: drafted, target_hidden_size: hidden, norm_before_residual: true },
    ...{ norm_before_fc: false, fc_norm: true, norm_output: true, logit_scale: 1 },
    eagle_aux_hidden_state_layer_ids: [0, 1],
  };
  const layer = "layers.0.";
  writeFiles(directory, config, {
    "fc.weight": floats(hidden, 2 * hidden),
    "fc_norm.0.weight": floats(hidden),
    "fc_norm.1.weight": floats(hidden),
    [`${layer}hidden_norm.weight`]: floats(hidden),
    [`${layer}input_layernorm.weight`]: floats(hidden),
    [`${layer}post_attention_layernorm.weight`]: floats(hidden),
    [`${layer}self_attn.q_proj.weight`]: floats(heads * headDim, 2 * hidden),
    [`${layer}self_attn.k_proj.weight`]: floats(headDim, 2 * hidden),
    [`${layer}self_attn.v_proj.weight`]: floats(headDim, 2 * hidden),
    [`${layer}self_attn.o_proj.weight`]: floats(hidden, heads * headDim),
    [`${layer}mlp.gate_proj.weight`]: floats(inner, hidden),
    [`${layer}mlp.up_proj.weight`]: floats(inner, hidden),
    [`${layer}mlp.down_proj.weight`]: floats(hidden, inner),
    "norm.weight": floats(hidden),
    "lm_head.weight": floats(drafted, hidden),
    d2t: tokenMap(drafted),
  });
}

/** A smaller model of the same vocabulary, with other heads. */
async function writeDraftModel(directory, modules) {
  const config = {
    ...{ ...SIZES, model_type: "llama", rms_norm_eps: 1e-6, hidden_act: "silu" },
    ...{ num_hidden_layers: 1, num_attention_heads: 4, num_key_value_heads: 2 },
  };
  mkdirSync(directory, { recursive: true });
  writeFileSync(join(directory, "config.json"), JSON.stringify(config));
  writeWeights(directory, await weightsOf({ config }, modules), 1, modules);
}

/** Three heads with a draft vocabulary, measured accuracies, and the tree's own paths. */
function writeMedusa(directory) {
  const { hidden_size: hidden, vocab_size } = SIZES;
  const drafted = 64;
  const heads = [0, 1, 2];
  const config = {
    ...{ model_type: "medusa", hidden_size: hidden, vocab_size, draft_vocab_size: drafted },
    ...{ medusa_num_heads: heads.length, medusa_num_layers: 1 },
    head_accuracies: heads.map((head) => [0.6 - head / 10, 0.2, 0.1]),
    medusa_choices: [[0], [0, 0], [1], [0, 0, 0], [0, 1], [2]],
  };
  const tensors = heads.flatMap((head) => [
    [`${head}.0.linear.weight`, floats(hidden, hidden)],
    [`${head}.0.linear.bias`, floats(hidden)],
    [`${head}.1.weight`, floats(drafted, hidden)],
  ]);
  writeFiles(directory, config, { ...Object.fromEntries(tensors), d2t: tokenMap(drafted) });
}

function floats(...shape) {
  const count = shape.reduce((product, extent) => product * extent, 1);
  const values = Float32Array.from({ length: count }, (_, at) => Math.sin(at) / 4);
  return { dtype: "F32", shape, bytes: Buffer.from(values.buffer) };
}

function tokenMap(drafted) {
  const map = BigInt64Array.from({ length: drafted }, (_, token) => BigInt(7 * token));
  return { dtype: "I64", shape: [drafted], bytes: Buffer.from(map.buffer) };
}

/** A ReDrafter with a draft vocabulary of 64 tokens, whose map is a tensor of integers. */
function writeReDrafter(directory) {
  const { hidden_size: hidden, vocab_size } = SIZES;
  const drafted = 64;
  const config = {
    ...{ model_type: "recurrent_drafting_drafter", hidden_size: hidden, vocab_size },
    ...{ exit_dim: 2 * hidden, num_draft_layers: 1, rnn: true, draft_vocab_size: drafted },
  };
  writeFiles(directory, config, {
    "rnn_w.weight": floats(hidden, hidden),
    "rnn_u.weight": floats(hidden, hidden),
    "rnn_u.bias": floats(hidden),
    "lm_head.0.linear.weight": floats(2 * hidden, 2 * hidden),
    "lm_head.0.linear.bias": floats(2 * hidden),
    "lm_head.1.weight": floats(drafted, 2 * hidden),
    d2t: tokenMap(drafted),
  });
}

function writeFiles(directory, config, tensors) {
  mkdirSync(directory, { recursive: true });
  writeFileSync(join(directory, "config.json"), JSON.stringify(config));
  const header = {};
  let end = 0;
  for (const [name, { dtype, shape, bytes }] of Object.entries(tensors)) {
    header[name] = { dtype, shape, data_offsets: [end, end + bytes.length] };
    end += bytes.length;
  }
  const text = Buffer.from(JSON.stringify(header));
  const length = Buffer.alloc(8);
  length.writeBigUInt64LE(BigInt(text.length));
  const all = Object.values(tensors).map(({ bytes }) => bytes);
  writeFileSync(join(directory, "model.safetensors"), Buffer.concat([length, text, ...all]));
}

/** A tokenizer of test/fixtures with fewer merges: it is read again for every mutant. */
function smallTokenizer(name) {
  const file = `test/fixtures/tokenizers/${name}/tokenizer.json`;
  const tokenizer = JSON.parse(readFileSync(file, "utf8"));
  if (tokenizer.model.merges !== undefined) tokenizer.model.merges.length = MERGES;
  return tokenizer;
}

const MERGES = 64;

/** The tensors that the loader asks for, by name. */
async function weightsOf({ config, isEncoder }, { models, devices }) {
  const found = new Map();
  const made = models.randomWeights();
  const sources = {
    size: 1,
    get(name, shape) {
      const source = made.get(name, shape);
      found.set(name, source);
      return source;
    },
  };
  const device = await devices.openDevice({ kind: "reference", warn() {} });
  const load = isEncoder ? models.loadEncoderWeights : models.loadDecoderWeights;
  load(device, models.describeModel(config), { sources, format: "f32" });
  device.dispose();
  return [...found.values()];
}

function writeWeights(directory, tensors, shards, { checkpoint }) {
  const plain = tensors.map(({ name, dtype, shape, bytes }) => ({
    name,
    dtype,
    shape,
    bytes: bytes(),
  }));
  if (shards === 1) {
    checkpoint.writeSafetensors(join(directory, "model.safetensors"), plain);
    return;
  }
  const weight_map = {};
  for (let shard = 0; shard < shards; shard++) {
    const file = `model-0000${shard + 1}-of-0000${shards}.safetensors`;
    const own = plain.filter((_, index) => index % shards === shard);
    for (const { name } of own) weight_map[name] = file;
    checkpoint.writeSafetensors(join(directory, file), own);
  }
  const index = JSON.stringify({ metadata: { total_size: 1 }, weight_map });
  writeFileSync(join(directory, "model.safetensors.index.json"), index);
}

/** The files of a seed, by name. */
export function readSeed(directory, names) {
  return new Map(names.map((name) => [name, readFileSync(join(directory, name))]));
}
