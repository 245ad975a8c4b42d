// The picture of docs/models.md: quantised files beside llama.cpp.
import { results } from "./results.mjs";

export function modelPictures() {
  const { columns, rows } = results("gguf-cpu");
  const processors = [...new Set(rows.map(({ processor }) => processor))];
  const charts = processors.map((processor) => {
    const own = rows.filter((row) => row.processor === processor);
    return {
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
  });
  return [["models/gguf.svg", charts]];
}
