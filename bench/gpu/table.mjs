// node bench/gpu/table.mjs [--rows decode-1,prefill-8192] [--json FILE] [--transformers FILE]
//                          [--model FOLDER] [--small]
//
// The table of the GPU: Llama-3.1-8B with random bf16 weights through the whole engine, beside what
// the memory and the tensor cores of this GPU allow, measured first. Limits count bytes that must
// be read and operations that must be done (bench/gpu/shape.mjs), over those ceilings:
//
//   decode    weights of layers and head + keys and values of every sequence, over the copy speed
//   prefill   products of all tokens, causal attention, and the head once, over bf16 products
//   requests  operations of all prompts, then a decoding step for every further token
//
// llama.cpp and transformers are as given; --transformers takes what peer_transformers.py printed
// on this card. --small: sizes for a look that all runs. Results go to bench/results/gpu.json
// unless --json names another file or only some rows were asked for.
import { existsSync, readFileSync } from "node:fs";
import { fileURLToPath } from "node:url";
import { readFlags } from "../../tools/flags.mjs";
import { givenRows } from "./given.mjs";
import { ceilingsText, giveUp, openOrGiveUp, requireBuild, warn, writeJson } from "./gpu-bench.mjs";
import { textTable } from "./text-table.mjs";

await requireBuild();
const { cudaFromEnvironment } = await import("../../dist/cli/cuda-environment.js");
const { CudaSession } = await import("../../dist/devices/cuda/cuda-session.js");
const { gpuText } = await import("../../dist/devices/cuda/driver/gpu.js");
const { LLM } = await import("../../dist/index.js");
const { measureCeilings } = await import("../../dist/devices/cuda/ceilings.js");
const { describeMachine } = await import("../machine.mjs");
const { llamaFolder, readShape } = await import("./shape.mjs");
const { tableRows } = await import("./table-rows.mjs");

const { values: flags } = readFlags({
  options: {
    rows: { type: "string" },
    json: { type: "string" },
    transformers: { type: "string" },
    model: { type: "string", default: llamaFolder },
    small: { type: "boolean" },
  },
});
const resultFile = fileURLToPath(new URL("../results/gpu.json", import.meta.url));
const smallSizes = { longTokens: 200, promptTokens: 24, prefillTokens: 64 };

/** The ceilings, from a session of their own: the engine takes nearly all memory later. */
async function ceilingsNow(settings) {
  const session = await openOrGiveUp(() => CudaSession.open({ settings }));
  try {
    const { version } = session.driver;
    return {
      gpu: gpuText(session.gpu),
      driver: version,
      ceilings: measureCeilings(session, settings),
    };
  } finally {
    session.dispose();
  }
}

/** The model as the table wants it: no prefix is found, and a long prompt fits one step. */
function load(settings) {
  return LLM.load(flags.model, {
    ...{ device: "cuda", dtype: "bfloat16", randomWeights: true, cuda: settings },
    kvCache: { prefixCaching: false, dtype: "bfloat16", eventBufferMax: 0 },
    speculative: { kind: "off" },
    scheduler: { stepTokensMax: flags.small ? 256 : 8192, runningSequencesMax: 256 },
    onWarning: warn,
  });
}

/** What transformers took on this card, by row; the given numbers where it was not run. */
function readPeers() {
  if (flags.transformers === undefined) return {};
  if (!existsSync(flags.transformers)) giveUp(`Cannot read ${flags.transformers}: no such file`);
  return JSON.parse(readFileSync(flags.transformers, "utf8")).rows ?? {};
}

/** One row beside its limit, its peers and its goals. */
function judged(row, measured, limit, peers) {
  const given = givenRows[row.id];
  const { value } = measured;
  const reaches = (goal) => (row.better === "more" ? value >= goal : value <= goal);
  return {
    ...{ id: row.id, work: row.work, unit: row.unit, ours: value, limit },
    ratio: limit === null ? null : row.better === "more" ? value / limit : limit / value,
    ...given,
    transformersMeasured: peers[row.id]?.value ?? null,
    ...{ must: given.must, aim: given.aim },
    pass: reaches(given.must) ? (reaches(given.aim) ? "aim" : "must") : "NO",
    measured,
  };
}

/** A row that fails says why, and the others go on, unless the engine is dead. */
async function measureRow(llm, row, shape, ceilings, peers) {
  const begun = performance.now();
  const limit = ceilings.bf16TFLOPs === null ? null : row.limit(shape, ceilings);
  try {
    const measured = await row.run(llm);
    const seconds = (performance.now() - begun) / 1000;
    console.error(
      `${row.work}: ${measured.value.toPrecision(4)} ${row.unit}, in ${seconds.toFixed(1)} s`,
    );
    return judged(row, measured, limit, peers);
  } catch (error) {
    if (error?.code === "ENGINE_DEAD" || error?.code === "DEVICE_FAILED") throw error;
    console.error(`${row.work}: ${error.message}`);
    return { id: row.id, work: row.work, unit: row.unit, ours: null, limit, error: error.message };
  }
}

const columns = [
  { title: "work", left: true, of: ({ work }) => work },
  { title: "unit", left: true, of: ({ unit }) => unit },
  { title: "ours", of: ({ ours }) => ours },
  { title: "limit", of: ({ limit }) => limit },
  {
    title: "ratio",
    of: ({ ratio = null }) => (ratio === null ? null : `${(100 * ratio).toFixed(0)} %`),
  },
  { title: "llama.cpp (given)", of: ({ llamaCpp }) => llamaCpp },
  { title: "transformers (given)", of: ({ transformers }) => transformers },
  { title: "transformers (here)", of: ({ transformersMeasured }) => transformersMeasured },
  { title: "must", of: ({ must }) => must },
  { title: "aim", of: ({ aim }) => aim },
  { title: "pass", left: true, of: ({ pass, error }) => error ?? pass },
];

/** All rows that were asked for, in one process on one loaded model. */
async function main() {
  const settings = cudaFromEnvironment();
  const shape = readShape(flags.model);
  const peers = readPeers();
  const { gpu, driver, ceilings } = await ceilingsNow(settings);
  console.log(`${gpu}: ${ceilingsText(ceilings)}`);
  const begun = performance.now();
  const llm = await load(settings);
  const loadSeconds = (performance.now() - begun) / 1000;
  console.error(`loaded in ${loadSeconds.toFixed(1)} s: ${llm.info.device}`);
  const wanted = flags.rows?.split(",") ?? null;
  const rows = [];
  for (const row of tableRows(flags.small ? smallSizes : {})) {
    if (wanted === null || wanted.includes(row.id)) {
      rows.push(await measureRow(llm, row, shape, ceilings, peers));
    }
  }
  console.log(textTable(columns, rows));
  const machine = { ...describeMachine(), gpu, driver };
  const command = ["node bench/gpu/table.mjs", ...process.argv.slice(2)].join(" ");
  const file = flags.json ?? (wanted === null && !flags.small ? resultFile : undefined);
  writeJson(file, { command, machine, ceilings, info: llm.info, loadSeconds, rows });
  await llm[Symbol.asyncDispose]();
}

await main().catch((error) => giveUp(error.stack ?? String(error)));
