// The picture of docs/kv-cache.md: what keys and values in 8 bits save, and what they cost.
import { machineText, only, results } from "./results.mjs";

const FORMATS = [
  { label: "float32", format: "f32", row: "float32" },
  { label: "bfloat16", format: "bf16", row: "bfloat16" },
  { label: "int8", format: "i8", row: "int8 KV" },
  { label: "fp8", format: "fp8", row: "fp8 KV" },
];

export function kvCachePictures() {
  const { capacities, rows, machine } = results("perplexity");
  const { formats, blockTokens } = only(capacities, { name: "models/pocket" });
  const bytes = (format) => blockTokens * only(formats, { format }).bytesPerToken;
  const charts = [
    {
      kind: "bars",
      title: "Bytes of a block, by the format of keys and values",
      subtitle: `the bundled model, blocks of ${blockTokens} tokens`,
      series: ["bytes"],
      rows: FORMATS.map(({ label, format }) => ({ label, values: [bytes(format)] })),
    },
    {
      kind: "bars",
      title: "Perplexity of the bundled model on held-out texts",
      subtitle: `weights in bfloat16, but for float32: all of it; ${machineText(machine)}`,
      series: ["perplexity"],
      rows: FORMATS.map(({ label, row }) => {
        const { perplexity } = only(rows, { name: row });
        return { label, values: [perplexity], texts: [perplexity.toFixed(4)] };
      }),
    },
  ];
  return [["kv-cache/formats.svg", charts]];
}
