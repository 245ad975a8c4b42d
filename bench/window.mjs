/**
 * node bench/window.mjs [tokens = 100000] [model = models/pocket] [--json PATH]
 *
 * Memory and speed of one output far longer than the window, with attention sinks. A tenth of the
 * output at a time: what a token takes and what is held must not grow. Needs `npm run build`.
 */
import { writeFileSync } from "node:fs";
import { LLM } from "../dist/index.js";
import { readFlags, refuse } from "../tools/flags.mjs";
import { describeMachine, peakResidentMb } from "./machine.mjs";

const WINDOW = 1024;
const SINKS = 4;
const PARTS = 10;
const POOL_BYTES = 2 ** 24;

const { positionals, values } = readFlags({
  allowPositionals: true,
  options: { json: { type: "string" } },
});
const tokens = Number(positionals[0] ?? 100_000);
if (!(tokens >= 10)) refuse(`Cannot make ${positionals[0]} tokens: wanted at least 10`);
const model = positionals[1] ?? "models/pocket";

const llm = await LLM.load(model, {
  // A small pool: what fell out of the window stays cached, so that a large one would fill first.
  kvCache: { attentionWindow: WINDOW, attentionSinks: SINKS, poolBytes: POOL_BYTES },
  scheduler: { contextTokensMax: tokens + WINDOW },
  speculative: { kind: "off" },
});
let heldBlocksMax = 0;
llm.listen({
  onStep: (_, { heldBlocks }) => {
    heldBlocksMax = Math.max(heldBlocksMax, heldBlocks);
  },
});

/** What one tenth of the output took. */
const parts = [];
let made = 0;
let startedMs = performance.now();
const options = { temperature: 1, seed: 1, maxTokens: tokens, ignoreEos: true, detokenize: false };
for await (const { tokenIds } of llm.stream({ promptTokenIds: [1, 2, 3, 4, 5] }, options)) {
  made += tokenIds.length;
  if (made < ((parts.length + 1) * tokens) / PARTS) continue;
  const nowMs = performance.now();
  parts.push({
    tokens: made,
    msPerToken: Number(((nowMs - startedMs) / (tokens / PARTS)).toFixed(3)),
    heldBlocksMax,
    peakMb: peakResidentMb(),
  });
  console.log(parts.at(-1));
  startedMs = nowMs;
}

const { blockTokens, bytesPerBlock } = llm.info;
const result = {
  command: `node bench/window.mjs ${tokens} ${model}`,
  machine: describeMachine(),
  ...{ model, tokens: made, window: WINDOW, sinks: SINKS, blockTokens },
  heldBlocksMax,
  heldMb: Number(((heldBlocksMax * bytesPerBlock) / 1e6).toFixed(2)),
  withoutWindowMb: Number(((Math.ceil(made / blockTokens) * bytesPerBlock) / 1e6).toFixed(2)),
  parts,
};
await llm[Symbol.asyncDispose]();
console.log(result);
if (values.json !== undefined) writeFileSync(values.json, `${JSON.stringify(result, null, 2)}\n`);
