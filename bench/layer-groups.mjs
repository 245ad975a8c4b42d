/**
 * node bench/layer-groups.mjs [--build DIR] [--device cpu] [--layers 26]
 *                             [--size small|gemma-2-2b] [--tokens 8192] [--out FILE]
 *
 * Memory that one sequence of Gemma-2's layout holds: every second layer sees 4,096 positions, the
 * others all. Random weights; `small` has few and narrow heads, since only the layout matters for
 * memory. `--build` names the `dist` folder of another build, to compare bytes and tokens with.
 * Prints JSON.
 */
import { createHash } from "node:crypto";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";
import { fileURLToPath, pathToFileURL } from "node:url";
import { readFlags } from "../tools/flags.mjs";
import { describeMachine } from "./machine.mjs";

const root = fileURLToPath(new URL("..", import.meta.url));
const { values: flags } = readFlags({
  options: {
    build: { type: "string", default: `${root}dist` },
    device: { type: "string", default: "cpu" },
    layers: { type: "number", default: 26, min: 2 },
    size: { type: "string", default: "small" },
    tokens: { type: "number", default: 8192, min: 64 },
    out: { type: "string", default: "" },
  },
});

const WINDOW = 4096;
const NEW_TOKENS = 64;
const SIZES = {
  small: {
    hidden_size: 64,
    intermediate_size: 128,
    num_attention_heads: 2,
    num_key_value_heads: 1,
  },
  // Of google/gemma-2-2b's config.json.
  "gemma-2-2b": {
    ...{
      hidden_size: 2304,
      intermediate_size: 9216,
      num_attention_heads: 8,
      num_key_value_heads: 4,
    },
    ...{ head_dim: 256, query_pre_attn_scalar: 256, vocab_size: 256_000 },
  },
};

const config = {
  ...{ model_type: "gemma2", architectures: ["Gemma2ForCausalLM"] },
  ...{ attn_logit_softcapping: 50, final_logit_softcapping: 30, rms_norm_eps: 1e-6 },
  ...{
    hidden_activation: "gelu_pytorch_tanh",
    head_dim: 32,
    query_pre_attn_scalar: 32,
    vocab_size: 512,
  },
  ...{ bos_token_id: 1, eos_token_id: 2, pad_token_id: 0, tie_word_embeddings: true },
  ...{ rope_theta: 10_000, max_position_embeddings: 8192, sliding_window: WINDOW },
  num_hidden_layers: flags.layers,
  layer_types: Array.from({ length: flags.layers }, (_, layer) =>
    layer % 2 === 0 ? "sliding_attention" : "full_attention",
  ),
  ...SIZES[flags.size],
};

const folder = mkdtempSync(join(tmpdir(), "perigee-layer-groups-"));
try {
  writeFileSync(join(folder, "config.json"), JSON.stringify(config));
  const { LLM } = await import(pathToFileURL(join(resolve(flags.build), "index.js")).href);
  const result = await measure(LLM);
  const text = JSON.stringify({ machine: describeMachine(), flags, ...result }, null, 2);
  console.log(text);
  if (flags.out !== "") writeFileSync(flags.out, `${text}\n`);
} finally {
  rmSync(folder, { recursive: true, force: true });
}

/** One sequence up to `--tokens` tokens: what it holds at its end, and what it said. */
async function measure(LLM) {
  const llm = await LLM.load(folder, {
    ...{ device: flags.device, randomWeights: true, engineThread: false },
    speculative: { kind: "off" },
    scheduler: { runningSequencesMax: 4, contextTokensMax: flags.tokens },
  });
  let heldBlocks = 0;
  let heldMax = 0;
  llm.listen({
    onStep: (_, stats) => {
      if (stats.heldBlocks > 0) heldBlocks = stats.heldBlocks;
      heldMax = Math.max(heldMax, stats.heldBlocks);
    },
  });
  const { vocab_size: words } = config;
  const count = flags.tokens - NEW_TOKENS;
  const promptTokenIds = Array.from({ length: count }, (_, at) => 3 + ((at * 7919) % (words - 3)));
  const before = performance.now();
  const options = { temperature: 0, maxTokens: NEW_TOKENS, ignoreEos: true };
  const [result] = await llm.generate({ promptTokenIds }, options);
  const { bytesPerBlock, blockTokens } = llm.info;
  const tokenIds = [...(result?.completions[0]?.tokenIds ?? [])];
  await llm.close();
  return {
    groupWindows: llm.info.groupWindows ?? [null],
    ...{ blockTokens, bytesPerBlock, heldBlocks },
    mib: Math.round((heldBlocks * bytesPerBlock) / 2 ** 20),
    heldBytes: heldBlocks * bytesPerBlock,
    heldBytesMax: heldMax * bytesPerBlock,
    seconds: Math.round((performance.now() - before) / 100) / 10,
    tokens: createHash("sha256").update(tokenIds.join(" ")).digest("hex").slice(0, 16),
    last: tokenIds.slice(-8),
  };
}
