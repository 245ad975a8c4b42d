/**
 * node bench/reproduction/rule.mjs [--out FILE]
 *
 * Section 2.2 of Mooncake (FAST'25): from which bandwidth on loading a prefix of p tokens is
 * quicker than computing it, B / G > 2 d s / (gqa (a p d + b d²)), for LLaMA3-70B (80 layers, d =
 * 8192, gqa = 8, s = 2 bytes, a = 4, b = 22): 6 GB/s on eight A800, 19 GB/s on eight H800 for 8,192
 * tokens. Beside it the bandwidth from which this project's estimators decide for a transfer, with
 * the costs that are fitted to the paper's figures: they compute slower than at the peak.
 */
import { PrefillEstimator, TransferEstimator } from "../../dist/cluster/index.js";
import { PAPER_COSTS } from "../../dist/simulator/index.js";
import { readFlags } from "../../tools/flags.mjs";
import { keep } from "./runs.mjs";

const MODEL = { d: 8192, gqa: 8, bytes: 2, a: 4, b: 22 };
const PEAK = { "8 x A800": 8 * 312e12, "8 x H800": 8 * 989e12 };
const PAPER = { "8 x A800": 6, "8 x H800": 19 };
const PROMPTS = [1024, 8192, 131_072];

const { values: flags } = readFlags({
  options: { out: { type: "string", published: "bench/results/reproduction-rule.json" } },
});

function ruleGbPerS(flops, prefix) {
  const { d, gqa, bytes, a, b } = MODEL;
  return (flops * 2 * d * bytes) / (gqa * (a * prefix * d + b * d * d)) / 1e9;
}

/** By halving: the least bandwidth at which moving the whole prefix is predicted to be quicker. */
function ownGbPerS(prefix) {
  const { promptMs, promptTokenMs, promptPairMs, bytesPerToken } = PAPER_COSTS;
  const coefficients = [promptMs, promptTokenMs * 1e3, (promptPairMs / 2) * 1e6];
  const prefill = new PrefillEstimator([], coefficients);
  const prompt = prefix + 1;
  const savedMs = prefill.ms(prompt, 0) - prefill.ms(prompt, prefix);
  const end = (bytesPerMs) => ({ bytesPerMs, flows: 0 });
  const isQuicker = (bytesPerMs) => {
    const ends = { sender: end(bytesPerMs), receiver: end(bytesPerMs) };
    return new TransferEstimator().ms({ bytes: prefix * bytesPerToken, ...ends }) < savedMs;
  };
  let [low, high] = [1, 1e9];
  while (high - low > 1) {
    const middle = (low + high) / 2;
    if (isQuicker(middle)) high = middle;
    else low = middle;
  }
  return high / 1e6;
}

const rows = PROMPTS.flatMap((prefix) => [
  ...Object.entries(PEAK).map(([node, flops]) => ({
    ...{ prefix, node, gbPerS: Number(ruleGbPerS(flops, prefix).toFixed(2)) },
    paperGbPerS: prefix === 8192 ? PAPER[node] : null,
  })),
  { prefix, node: "fitted costs", gbPerS: Number(ownGbPerS(prefix).toFixed(2)), paperGbPerS: null },
]);
for (const row of rows) console.log(JSON.stringify(row));
keep({ name: "rule", out: flags.out, rows });
