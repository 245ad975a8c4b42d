// Pictures of docs/research.md: a CPU beside llama.cpp, and the cache's levels.
import { machineText, only, points, results } from "./results.mjs";

const WORK = {
  prefill: "prompt of 512",
  streams1: "1 stream",
  streams8: "8 streams",
  streams16: "16 streams",
};
const LEVELS = {
  nowhereMs: "not stored",
  diskMs: "on disk",
  hostMs: "in host memory",
  deviceMs: "on the device",
};

/** One shape in both precisions, beside the other side in its own. */
function shapeChart(file, shape, name) {
  const { comparisons, machine } = results(file);
  const [int8, bf16] = ["int8", "bf16"].map(
    (precision) => only(comparisons, { shape, precision }).rows,
  );
  const ratios = (rows, work) => {
    const { ours, peer } = only(rows, { work });
    return [ours, peer];
  };
  return {
    kind: "bars",
    title: `${name}, tokens a second beside llama.cpp`,
    subtitle: `the same random weights, medians of 5; ${machineText(machine)}`,
    series: ["Perigee, int8", "llama.cpp, Q8_0", "Perigee, bf16", "llama.cpp, F16"],
    rows: Object.entries(WORK).map(([work, label]) => ({
      label,
      values: [...ratios(int8, work), ...ratios(bf16, work)],
    })),
  };
}

export function researchPictures() {
  const tiers = results("tiers");
  return [
    [
      "research/cpu.svg",
      [
        shapeChart("cpu-smol135", "smol135", "SmolLM-135M"),
        shapeChart("cpu", "qwen05", "Qwen2.5-0.5B"),
      ],
    ],
    [
      "research/tiers.svg",
      [
        {
          kind: "lines",
          title: "Time to the first token, by where the prompt's blocks are",
          subtitle: `the bundled model, bfloat16; ${machineText(tiers.machine)}`,
          x: { label: "tokens that are stored (log)", scale: "log" },
          y: { label: "ms (log)", scale: "log" },
          series: Object.entries(LEVELS).map(([key, name]) => ({
            name,
            points: points(tiers.rows, "length", key),
          })),
        },
      ],
    ],
  ];
}
