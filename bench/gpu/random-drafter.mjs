/** Drafters of a model's shape with random weights: what they cost, not what they are worth. */
import { closeSync, openSync, readFileSync, writeFileSync, writeSync } from "node:fs";
import { join } from "node:path";

/** Tensors and config.json of a ReDrafter of the model's shape. */
function redrafterOf({ hidden_size: hidden, vocab_size: vocabulary }, { drafted, blocks }) {
  const exit = 2 * hidden;
  const tensors = [
    ["rnn_w.weight", [hidden, hidden]],
    ["rnn_u.weight", [hidden, hidden]],
    ["rnn_u.bias", [hidden]],
    ...Array.from({ length: blocks }, (_, block) => [
      [`lm_head.${block}.linear.weight`, [exit, exit]],
      [`lm_head.${block}.linear.bias`, [exit]],
    ]).flat(),
    [`lm_head.${blocks}.weight`, [drafted, exit]],
  ];
  const settings = {
    model_type: "recurrent_drafting_drafter",
    ...{ vocab_size: vocabulary, hidden_size: hidden, exit_dim: exit },
    ...{ num_draft_layers: blocks, rnn: true, draft_vocab_size: drafted },
  };
  return { tensors, settings };
}

/** The same of an EAGLE-3 that has the model's embeddings: one layer of the model's shape. */
function eagle3Of(config, { drafted }) {
  const { hidden_size: hidden, intermediate_size: inner, num_attention_heads: heads } = config;
  const { head_dim: headDim = hidden / heads, num_key_value_heads: kvHeads = heads } = config;
  const layer = "midlayer.";
  const tensors = [
    ["fc.weight", [hidden, 3 * hidden]],
    ...["hidden_norm", "input_layernorm", "post_attention_layernorm"].map((name) => [
      `${layer}${name}.weight`,
      [hidden],
    ]),
    [`${layer}self_attn.q_proj.weight`, [heads * headDim, 2 * hidden]],
    [`${layer}self_attn.k_proj.weight`, [kvHeads * headDim, 2 * hidden]],
    [`${layer}self_attn.v_proj.weight`, [kvHeads * headDim, 2 * hidden]],
    [`${layer}self_attn.o_proj.weight`, [hidden, heads * headDim]],
    [`${layer}mlp.gate_proj.weight`, [inner, hidden]],
    [`${layer}mlp.up_proj.weight`, [inner, hidden]],
    [`${layer}mlp.down_proj.weight`, [hidden, inner]],
    ["norm.weight", [hidden]],
    ["lm_head.weight", [drafted, hidden]],
  ];
  const settings = { ...config, num_hidden_layers: 1, draft_vocab_size: drafted };
  return { tensors, settings };
}

/**
 * Writes a drafter of the shape of the model in `model` in bf16, the same few values over and over.
 * `blocks`: those of a ReDrafter's exit.
 */
export function writeRandomDrafter(folder, { model, kind, draftVocabulary, blocks }) {
  const config = JSON.parse(readFileSync(join(model, "config.json"), "utf8"));
  const drafted = Math.min(draftVocabulary, config.vocab_size);
  const made = kind === "eagle3" ? eagle3Of : redrafterOf;
  const { tensors, settings } = made(config, { drafted, blocks });
  const header = {};
  let end = 0;
  for (const [name, shape] of tensors) {
    const bytes = 2 * shape.reduce((product, extent) => product * extent, 1);
    header[name] = { dtype: "BF16", shape, data_offsets: [end, end + bytes] };
    end += bytes;
  }
  header.d2t = { dtype: "I64", shape: [drafted], data_offsets: [end, end + 8 * drafted] };
  const text = Buffer.from(JSON.stringify(header));
  const padded = Buffer.concat([text, Buffer.alloc(-text.length & 7, " ")]);
  const file = openSync(join(folder, "model.safetensors"), "w");
  const size = Buffer.alloc(8);
  size.writeBigUInt64LE(BigInt(padded.length));
  writeSync(file, size);
  writeSync(file, padded);
  // bf16 between -1/64 and 1/64, of a fixed seed.
  const piece = new Uint16Array(1 << 20);
  let state = 1;
  for (let at = 0; at < piece.length; at++) {
    state = (Math.imul(state, 1664525) + 1013904223) >>> 0;
    piece[at] = ((state >>> 31) << 15) | 0x3c00 | ((state >>> 20) & 0x7f);
  }
  for (let left = end; left > 0; left -= piece.byteLength) {
    writeSync(file, new Uint8Array(piece.buffer, 0, Math.min(left, piece.byteLength)));
  }
  writeSync(file, Buffer.alloc(8 * drafted));
  closeSync(file);
  writeFileSync(join(folder, "config.json"), JSON.stringify(settings));
}
