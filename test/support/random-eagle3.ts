import { mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { type TensorToWrite, writeSafetensors } from "#checkpoint";
import { RandomNumbers } from "../contracts/device-ops/random.ts";

/** An EAGLE-3's sizes. */
export interface Eagle3Shape {
  /** The base's hidden size, and how many of its layers are read. */
  readonly base: number;
  readonly taps?: readonly number[];
  readonly vocabulary: number;
  readonly hidden?: number;
  readonly heads?: number;
  readonly kvHeads?: number;
  /** Drafted tokens; their map goes to every second token from 1 on. Default: the vocabulary. */
  readonly drafted?: number;
  /** Whether it has embeddings of its own. Default: true. */
  readonly tokens?: boolean;
  /** What names begin with: the layer's, and others. Default: SafeAILab/EAGLE's. */
  readonly prefixes?: readonly [layer: string, other: string];
  /** Further fields of config.json. */
  readonly config?: Readonly<Record<string, unknown>>;
}

/** Writes an EAGLE-3 with random float32 weights into a folder. */
export function writeRandomEagle3(folder: string, shape: Eagle3Shape, seed = 1): void {
  const { base, taps, vocabulary, hidden = base, heads = 4, kvHeads = 2, tokens = true } = shape;
  const { drafted = vocabulary, prefixes = ["midlayer.", ""], config = {} } = shape;
  const headDim = 16;
  const inner = 2 * hidden;
  const random = new RandomNumbers(seed);
  const tensor = (name: string, ...extents: number[]): TensorToWrite => {
    const count = extents.reduce((product, extent) => product * extent, 1);
    const values = random.floats(count, 2 / Math.sqrt(extents.at(-1) ?? 1));
    return { name, dtype: "f32", shape: extents, bytes: new Uint8Array(values.buffer) };
  };
  const norm = (name: string, size = hidden): TensorToWrite => {
    const values = random.floats(size, 0.5).map((value) => 1 + value);
    return { name, dtype: "f32", shape: [size], bytes: new Uint8Array(values.buffer) };
  };
  const [layer, other] = prefixes;
  const width = (taps?.length ?? 3) * base;
  const bias = (name: string, size: number): TensorToWrite[] =>
    config.attention_bias === true ? [tensor(name, size)] : [];
  const attention = `${layer}self_attn.`;
  const columns = { q: heads * headDim, k: kvHeads * headDim, v: kvHeads * headDim };
  const tensors = [
    tensor(`${other}fc.weight`, hidden, width),
    ...(config.norm_before_fc === true ? [norm(`${other}input_norm.weight`, width)] : []),
    ...(config.fc_norm === true
      ? Array.from({ length: width / base }, (_, at) => norm(`${other}fc_norm.${at}.weight`, base))
      : []),
    ...Object.entries(columns).flatMap(([part, rows]) => [
      tensor(`${attention}${part}_proj.weight`, rows, 2 * hidden),
      ...bias(`${attention}${part}_proj.bias`, rows),
    ]),
    tensor(`${attention}o_proj.weight`, hidden, heads * headDim),
    ...bias(`${attention}o_proj.bias`, hidden),
    ...(config.model_type === "qwen3"
      ? [norm(`${attention}q_norm.weight`, headDim), norm(`${attention}k_norm.weight`, headDim)]
      : []),
    ...["hidden_norm", "input_layernorm", "post_attention_layernorm"].map((name) =>
      norm(`${layer}${name}.weight`),
    ),
    tensor(`${layer}mlp.gate_proj.weight`, inner, hidden),
    tensor(`${layer}mlp.up_proj.weight`, inner, hidden),
    tensor(`${layer}mlp.down_proj.weight`, hidden, inner),
    norm(`${other}norm.weight`),
    tensor("lm_head.weight", drafted, hidden),
    ...(tokens ? [tensor(`${other}embed_tokens.weight`, vocabulary, hidden)] : []),
  ];
  mkdirSync(folder, { recursive: true });
  const json = {
    ...{ model_type: "llama", architectures: ["LlamaForCausalLMEagle3"], hidden_size: hidden },
    ...{ intermediate_size: inner, num_hidden_layers: 1, num_attention_heads: heads },
    ...{ num_key_value_heads: kvHeads, head_dim: headDim, vocab_size: vocabulary },
    ...{ max_position_embeddings: 64, rope_theta: 500, draft_vocab_size: drafted },
    ...(hidden !== base && { target_hidden_size: base }),
    ...(taps !== undefined && { eagle_aux_hidden_state_layer_ids: taps }),
    ...config,
  };
  writeFileSync(join(folder, "config.json"), JSON.stringify(json));
  writeSafetensors(join(folder, "model.safetensors"), tensors);
  if (drafted !== vocabulary) addTokenMap(join(folder, "model.safetensors"), drafted);
}

/** Adds `d2t` to a file: token d is drafted for token 2 d + 1. */
function addTokenMap(path: string, drafted: number): void {
  const file = readFileSync(path);
  const length = Number(file.readBigUInt64LE(0));
  const header: unknown = JSON.parse(file.subarray(8, 8 + length).toString());
  const data = file.subarray(8 + length);
  const map = BigInt64Array.from({ length: drafted }, (_, token) => BigInt(token + 1));
  const offsets = [data.length, data.length + map.byteLength];
  const entry = { dtype: "I64", shape: [drafted], data_offsets: offsets };
  const text = Buffer.from(JSON.stringify({ ...(header ?? {}), d2t: entry }));
  const size = Buffer.alloc(8);
  size.writeBigUInt64LE(BigInt(text.length));
  writeFileSync(path, Buffer.concat([size, text, data, Buffer.from(map.buffer)]));
}
