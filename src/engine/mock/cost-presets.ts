/** Cost models of machines that were measured: the points, where they are from, and their fit. */
import { type CostFit, type CostPoint, fitCost } from "./cost-fit.ts";
import { type CostModel, pairsOf } from "./cost-model.ts";

/** A measured machine: its cost model without the fitted part, and the points of that. */
interface MeasuredMachine extends Omit<CostModel, "step"> {
  readonly points: readonly CostPoint[];
}

/** Names of the presets, for `--cost-model`. */
export const COST_PRESETS = ["h200-8b", "cpu-110m"] as const;
export type CostPreset = (typeof COST_PRESETS)[number];

/** `batch` sequences decode one token each, with `context` tokens of context. */
function decode(batch: number, context: number, ms: number): CostPoint {
  return {
    ...{ steps: 1, promptTokens: 0, promptPairs: 0 },
    ...{ decoding: batch, contextTokens: batch * context, ms },
  };
}

/** A prompt of `tokens`, computed in `steps` steps. */
function prefill(tokens: number, steps: number, ms: number): CostPoint {
  return {
    ...{ steps, promptTokens: tokens, promptPairs: pairsOf(0, tokens) },
    ...{ decoding: 0, contextTokens: 0, ms },
  };
}

const MACHINES: Readonly<Record<CostPreset, MeasuredMachine>> = {
  "h200-8b": {
    name: "h200-8b",
    source:
      "Llama-3.1-8B's shape in bfloat16 on one NVIDIA H200: bench/results/gpu.json (rows " +
      "decode-1 to decode-100k and prefill-8192, 2026-11-22) and gpu-report.json (copies: a step " +
      "of 2048 tokens, onboard of 256 blocks); disk: not measured there, tiers.json's best read",
    points: [
      // 128 tokens of prompt and 188 steps: 222 of context in the middle.
      decode(1, 222, 1000 / 242.16632794660563),
      decode(8, 222, 4.362730021276596),
      decode(64, 576, 6.117276258333337),
      decode(256, 576, 12.876538481481509),
      decode(1, 100_000, 1000 / 135.7091199865474),
      prefill(2048, 1, 47.18870544433594),
      prefill(8192, 1, (8192 / 38421.20262059898) * 1000),
    ],
    contextTokensMax: 131_072,
    bytesPerToken: 131_072,
    hostBytesPerMs: 49_696_871,
    diskBytesPerMs: 421_000,
    // 55,285 blocks of 16 tokens, what 0.9 of the GPU's memory leaves beside the weights.
    poolTokens: [884_560, 0, 0],
    // 2 * 32 layers * 32 heads * 128 / 8.03e9 parameters.
    attentionWeight: (2 * 32 * 32 * 128) / 8_030_261_248,
  },
  "cpu-110m": {
    name: "cpu-110m",
    source:
      "a Llama of 110.9 M parameters in int8 on two cores of an AMD EPYC: " +
      "bench/results/cpu-smol135.json (512 tokens of prefill; 128 tokens out behind 32, in 1, 8 " +
      "and 16 streams; 2026-11-21); copies and disk: tiers.json",
    points: [
      prefill(512, 1, (512 / 1873.9) * 1000),
      decode(1, 96, 1000 / 234.8),
      decode(8, 96, (8 / 1077.7) * 1000),
      decode(16, 96, (16 / 1410.9) * 1000),
    ],
    contextTokensMax: 8192,
    // 30 layers, 3 kv heads of 64, keys and values in bfloat16.
    bytesPerToken: 23_040,
    hostBytesPerMs: 14_687_000,
    diskBytesPerMs: 421_000,
    // 1 GiB, the default pool of a CPU.
    poolTokens: [46_592, 0, 0],
    attentionWeight: (2 * 30 * 9 * 64) / 110_922_048,
  },
};

/** How a preset's model fits its points. */
export function presetFit(name: CostPreset): CostFit {
  return fitCost(MACHINES[name].points);
}

/** The measured points of a preset. */
export function presetPoints(name: CostPreset): readonly CostPoint[] {
  return MACHINES[name].points;
}

/** A preset's cost model. */
export function costPreset(name: CostPreset): CostModel {
  const { points, ...machine } = MACHINES[name];
  return { ...machine, step: fitCost(points).cost };
}

/** Whether `--cost-model` names a preset, not a file. */
export function isCostPreset(name: string): name is CostPreset {
  return COST_PRESETS.some((preset) => preset === name);
}
