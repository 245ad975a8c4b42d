// Pictures of docs/rag.md: what the order of passages saves, and searches by a corpus's size.
import { machineText, matching, only, results } from "./results.mjs";

const ORDERS = {
  "no prefix cache, by similarity": "no prefix cache",
  "by similarity": "best first",
  "by document": "by document",
  "our order": "this order",
  "our order, retention": "and retention",
};
const POOLS = { "holds all": "the pool holds all", evicts: "a pool of 16,384 tokens" };

function cache() {
  const { machine, rows } = results("rag-cache");
  const counted = rows.filter(({ computedTokens }) => computedTokens !== undefined);
  const text = ({ computedTokens, firstTokenMs }) => {
    const tokens = `${Math.round(computedTokens / 1000)} k`;
    return firstTokenMs === null ? tokens : `${tokens}, ${Math.round(firstTokenMs.mean)} ms`;
  };
  return {
    kind: "bars",
    title: "Prompt tokens computed for 200 questions, and the mean time to the first token",
    subtitle: `the bundled model, ${machineText(machine)}`,
    series: Object.values(POOLS),
    rows: Object.entries(ORDERS).map(([name, label]) => {
      const found = Object.keys(POOLS).map((pool) => only(counted, { name, pool }));
      return { label, values: found.map((row) => row.computedTokens), texts: found.map(text) };
    }),
  };
}

function stores() {
  const { machine, results: rows } = results("rag-stores");
  const folders = matching(rows, { store: "folder" });
  const by = { vector: "by vector", text: "by words", both: "by both" };
  return {
    kind: "lines",
    title: "Search in a folder, p50, by chunks of the corpus",
    subtitle: machineText(machine),
    x: { label: "chunks (log)", scale: "log" },
    y: { label: "ms (log)", scale: "log" },
    series: Object.entries(by).map(([key, name]) => ({
      name,
      points: folders.map(({ chunks, searches }) => [chunks, searches[key].p50Ms]),
    })),
  };
}

function retrieval() {
  const { results: rows, questions } = results("rag-retrieval");
  const by = { bm25: "by words", dense: "by vector", hybrid: "by both" };
  return {
    kind: "lines",
    title: "Mean reciprocal rank, by tokens of a chunk",
    subtitle: `${questions.count} questions of FAQs`,
    x: { label: "tokens of a chunk", names: rows.map(({ chunkTokens }) => String(chunkTokens)) },
    y: { label: "of 1" },
    series: Object.entries(by).map(([key, name]) => ({
      name,
      points: rows.map(({ methods }, at) => [at, methods[key].all.mrr]),
    })),
  };
}

export function ragPictures() {
  return [
    ["rag/cache.svg", [cache()]],
    ["rag/search.svg", [stores(), retrieval()]],
  ];
}
