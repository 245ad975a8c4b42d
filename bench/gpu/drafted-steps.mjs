// node bench/gpu/drafted-steps.mjs [--model FOLDER] [--kind redrafter|eagle3] [--batches 1,64]
//     [--shapes 1x1,1x4] [--draft-vocabulary 32000] [--blocks 2] [--steps 10] [--json FILE]
//     [--drafter FOLDER]
//
// Where the time of a step goes that drafts by a network and verifies what the step before drafted,
// beside a plain one of the same model: consecutive steps at the shape of a large model (default:
// Llama-3.1-8B's) with random weights, as means over `--steps`. The GPU's times are events in its
// stream: the model's layers, the draw of tokens, the network, and what is before each of the two
// parts: little work, and waiting for the host. The host's are those of the methods named in
// `watchHost`. The engine runs on the thread of this script. A drafter with random weights is never
// right: each step gives one token. With --drafter the weights are the model's own.
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { readFlags } from "../../tools/flags.mjs";
import { describeMachine } from "../machine.mjs";
import { namedFlags, openOrGiveUp, requireBuild, warn, writeJson } from "./gpu-bench.mjs";
import { HostTrace, phasesBetween, watchStep } from "./host-trace.mjs";
import { writeRandomDrafter } from "./random-drafter.mjs";
import { llamaFolder } from "./shape.mjs";
import { textTable } from "./text-table.mjs";

await requireBuild();
const { cudaFromEnvironment } = await import("../../dist/cli/cuda-environment.js");
const { CudaDevice } = await import("../../dist/devices/cuda/cuda-device.js");
const { CudaEvent } = await import("../../dist/devices/cuda/driver/event.js");
const { CommandBuilder } = await import("../../dist/engine/loop/command-builder.js");
const { Drafting } = await import("../../dist/engine/loop/drafting.js");
const { ModelDrafts } = await import("../../dist/engine/loop/model-drafts.js");
const { LLM } = await import("../../dist/index.js");
const { Decoder } = await import("../../dist/models/decoder.js");
const { Sampler } = await import("../../dist/sampling/sampler.js");
const { Scheduler } = await import("../../dist/scheduler/scheduler.js");

const { values: flags } = readFlags({
  options: {
    model: { type: "string", default: llamaFolder },
    kind: { type: "string", default: "redrafter" },
    batches: { type: "numbers", default: [1, 64], min: 1 },
    shapes: { type: "string", default: "1x1,1x4" },
    "draft-vocabulary": { type: "number", default: 32_000, min: 1 },
    blocks: { type: "number", default: 2, min: 1 },
    steps: { type: "number", default: 10, min: 1 },
    drafter: { type: "string" },
    json: { type: "string" },
  },
});
const shapes = flags.shapes.split(",").map((text) => {
  const [width, length] = text.split("x").map(Number);
  return { width, length };
});
/** Steps before the first that is watched: the pipeline fills. */
const stepsBefore = 16;
/** Tokens before that, until the host's code is compiled. */
const warmTokens = 300;

// A drafter that is never right would rest after a few drafts.
ModelDrafts.prototype.verified = () => {};

/** The device that the engine opens: its marks are not the engine's concern. */
let device = null;
const openDevice = CudaDevice.open;
CudaDevice.open = async (options) => {
  device = await openDevice.call(CudaDevice, options);
  return device;
};

function watchHost() {
  const trace = new HostTrace();
  watchStep(trace, { Scheduler, CommandBuilder, Decoder, Sampler, CudaEvent });
  trace.watch(Drafting, ["grown", "allot"], "commit");
  return trace;
}

/** Marks the model's layers, whether they are one graph or not. */
function markLayers() {
  const { forward } = Decoder.prototype;
  Decoder.prototype.forward = function marked(...given) {
    device?.marks.add("begin");
    forward.apply(this, given);
    device?.marks.add("layers done");
  };
}

markLayers();
const trace = watchHost();
const rowsMax = Math.max(...flags.batches) * (1 + Math.max(...shapes.map(nodesOf)));

function nodesOf({ width, length }) {
  return width * length;
}

const load = (speculative) =>
  openOrGiveUp(() =>
    LLM.load(flags.model, {
      ...{ device: "cuda", dtype: "bfloat16", engineThread: false },
      randomWeights: flags.drafter === undefined,
      cuda: cudaFromEnvironment(),
      kvCache: { prefixCaching: false, dtype: "bfloat16" },
      // So many rows can be sampled, too.
      scheduler: { runningSequencesMax: rowsMax, stepTokensMax: Math.max(2048, rowsMax) },
      ...{ speculative, onWarning: warn },
    }),
  );

/** The stream's marks and the host's spans of consecutive steps of `batch` sequences. */
async function watchSteps(llm, batch, speculative) {
  let [seen, zeroMs, marks, spans] = [0, 0, [], []];
  const onStep = ({ sequences, stepTokens }) => {
    if (sequences !== batch || stepTokens > rowsMax) return;
    seen++;
    if (seen === stepsBefore) {
      // Behind an idle stream a mark is made at once: there both clocks say the same.
      void device.synchronize();
      device.marks.start();
      device.marks.add("zero");
      zeroMs = performance.now();
      trace.start();
    } else if (seen === stepsBefore + flags.steps + 6) {
      spans = trace.stop();
      marks = device.marks.stop();
    }
  };
  const options = { temperature: 0, ignoreEos: true, speculative };
  const prompts = Array.from({ length: batch }, (_, at) => ({
    promptTokenIds: Array.from(
      { length: 128 },
      (_, place) => 100 + ((7919 * at + 31 * place) % 3000),
    ),
  }));
  await llm.generate(prompts, { ...options, maxTokens: warmTokens });
  const stop = llm.listen({ onStep });
  try {
    await llm.generate(prompts, { ...options, maxTokens: stepsBefore + flags.steps + 40 });
  } finally {
    stop();
  }
  if (marks.length === 0) throw new Error(`only ${seen} steps decoded all ${batch} sequences`);
  const host = spans.map(({ phase, start, end }) => ({
    ...{ phase, start: start - zeroMs, end: end - zeroMs },
  }));
  return { marks, host };
}

/** What the GPU does from each mark to the next one. */
function worksOf(marks) {
  const works = [];
  let part = "";
  for (const { label, key } of marks) {
    if (label === "begin") part = "layers";
    else if (label === "layers done") part = "draw";
    else if (label === "step" && !key.startsWith("decoder")) part = "network";
    else if (label === "read") part = part === "draw" ? "to network" : "to layers";
    works.push(part);
  }
  return works;
}

/** Means of a step, in microseconds. */
function summarize({ marks, host }) {
  const starts = marks.flatMap(({ label }, at) => (label === "begin" ? [at] : []));
  const works = worksOf(marks);
  // The first ones were held up by the look at the clocks.
  const [first, end] = [starts[3], starts[3 + flags.steps]];
  const sums = {};
  for (let at = first; at < end; at++) {
    const work = works[at];
    sums[work] = (sums[work] ?? 0) + marks[at + 1].ms - marks[at].ms;
  }
  const [fromMs, toMs] = [marks[first].ms, marks[end].ms];
  const mean = (ms) => Math.round((1e4 * ms) / flags.steps) / 10;
  const means = (of) => Object.fromEntries(Object.entries(of).map(([key, ms]) => [key, mean(ms)]));
  return {
    stepUs: mean(toMs - fromMs),
    gpuUs: means(sums),
    hostUs: means(phasesBetween(host, fromMs, toMs)),
  };
}

const parts = ["layers", "draw", "to network", "network", "to layers"];
const phases = ["plan", "stage", "launch", "wait", "commit"];

function print(rows) {
  const columns = [
    { title: "step of", of: ({ batch, name }) => `${batch} ${name}` },
    { title: "us", of: ({ stepUs }) => stepUs },
    ...parts.map((work) => ({ title: work, of: ({ gpuUs }) => gpuUs[work] ?? 0 })),
    ...phases.map((phase) => ({ title: `host: ${phase}`, of: ({ hostUs }) => hostUs[phase] ?? 0 })),
  ];
  console.log(textTable(columns, rows));
}

const rows = [];
const plain = await load({ kind: "off" });
for (const batch of flags.batches) {
  rows.push({ batch, name: "plain", ...summarize(await watchSteps(plain, batch, false)) });
}
await plain.close();

const folder = mkdtempSync(join(tmpdir(), "perigee-drafter-"));
if (flags.drafter === undefined) {
  writeRandomDrafter(folder, { ...flags, draftVocabulary: flags["draft-vocabulary"] });
}
const llm = await load({
  ...{ kind: flags.kind, model: flags.drafter ?? folder, adaptive: false },
  width: Math.max(...shapes.map(({ width }) => width)),
  lengthMax: Math.max(...shapes.map(({ length }) => length)),
});
rmSync(folder, { recursive: true });
for (const batch of flags.batches) {
  for (const shape of shapes) {
    const found = await watchSteps(llm, batch, { kind: flags.kind, ...shape });
    const name = `${flags.kind} ${shape.width}x${shape.length}`;
    rows.push({ batch, name, ...summarize(found) });
  }
}
print(rows);
const { drafter } = llm.info.speculative;
await llm.close();
writeJson(flags.json, { machine: describeMachine(), flags: namedFlags(flags), drafter, rows });
