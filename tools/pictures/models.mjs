// The pictures of docs/models.md: quantised files beside llama.cpp, one for each processor.
import { results } from "./results.mjs";

/** By the processor's name in the results; others have no picture. */
const PICTURES = [
  ["Zen 4, AVX-512", "models/gguf.svg"],
  ["Zen 4, AVX2 alone", "models/gguf-avx2.svg"],
  ["AMX", "models/gguf-amx.svg"],
];

export function modelPictures() {
  const { columns, rows } = results("gguf-cpu");
  const processors = [...new Set(rows.map(({ processor }) => processor))];
  return processors.flatMap((processor) => {
    const own = rows.filter((row) => row.processor === processor);
    const [, path] = PICTURES.find(([name]) => processor.includes(name)) ?? [];
    if (path === undefined) return [];
    const chart = {
      kind: "bars",
      title: "A GGUF file's tokens a second over llama.cpp's",
      subtitle: `${processor}; other work beside`,
      unit: " ×",
      series: own.map(({ file }) => file),
      limit: { name: "llama.cpp", value: 1 },
      rows: columns
        .map((label, at) => ({ label, values: own.map(({ ratios }) => ratios[at]) }))
        .filter(({ values }) => values.some((value) => value !== null)),
    };
    return [[path, [chart]]];
  });
}
