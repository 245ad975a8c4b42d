// docs/gpu.svg: each kind of work as a share of what the GPU allows.
import { machineText, results } from "./results.mjs";

/** Three digits and the unit. */
function quantity(value, unit) {
  const thousands = value >= 10_000;
  const scaled = thousands ? value / 1000 : value;
  return `${Number(scaled.toPrecision(3))}${thousands ? " k" : ""} ${unit}`;
}

/** Percent of the limit that a value reaches: speeds grow towards it, times shrink. */
const shareOf = (value, { limit, unit }) =>
  100 * (unit === "tok/s" ? value / limit : limit / value);

export function gpuPictures() {
  const { machine, rows } = results("gpu");
  return [
    [
      "gpu.svg",
      [
        {
          kind: "bars",
          title: "Share of what the GPU allows, by kind of work",
          subtitle: `Llama-3.1-8B's shape, bfloat16, ${machineText(machine)}`,
          series: ["Perigee", "transformers"],
          limit: { name: "100 %", value: 100 },
          rows: rows.map((row) => {
            const values = [row.ours, row.transformersMeasured];
            const shares = values.map((value) => (value === null ? null : shareOf(value, row)));
            const text = (share, at) => `${Math.round(share)} %, ${quantity(values[at], row.unit)}`;
            const texts = shares.map((share, at) => (share === null ? "" : text(share, at)));
            return { label: row.work, values: shares, texts };
          }),
        },
      ],
    ],
  ];
}
