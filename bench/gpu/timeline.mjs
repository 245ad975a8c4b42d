// node bench/gpu/timeline.mjs [--batch 1,64] [--steps 10] [--model FOLDER] [--json FILE]
// node bench/gpu/timeline.mjs --requests 256 [--prompt-tokens 512] [--output-tokens 128]
//                             [--step-tokens 8192] [--runs 2] [--engine-thread] [--model FOLDER]
//                             [--json FILE]
//
// Consecutive steps of decoding in the engine, Llama-3.1-8B with random bf16 weights: when the GPU
// worked, and what the host did meanwhile. The GPU's times are events in its stream, before a
// step's kernels and behind its draw; what lies between one step's end and the next one's start
// counts as idle, though the next inputs are copied in it. The host's times are those of the
// methods named in `watchHost`. The engine runs on the thread of this script, so that both clocks
// can be read.
//
// With --requests: that many at once, from just before `generate` to its return, once to warm up,
// then --runs times. Where the time went: before the GPU's first step, in steps of each kind, in
// gaps between them, behind the last one; and the host's part in each, by phase (request-run.mjs
// says which methods those are; a phase does not count what lies in it). A step's host time is what
// the host did until the next step began, mostly for the next one. --engine-thread puts the engine
// on a thread of its own, as it is by default: then there are only the times of its reports.
import { readFlags } from "../../tools/flags.mjs";
import { giveUp, requireBuild, warn, writeJson } from "./gpu-bench.mjs";
import { HostTrace, phasesBetween, watchStep } from "./host-trace.mjs";
import { summarizeRun } from "./request-steps.mjs";
import { runText } from "./request-tables.mjs";
import { textTable } from "./text-table.mjs";

await requireBuild();
const { cudaFromEnvironment } = await import("../../dist/cli/cuda-environment.js");
const { CudaDevice } = await import("../../dist/devices/cuda/cuda-device.js");
const { CudaEvent } = await import("../../dist/devices/cuda/driver/event.js");
const { CommandBuilder } = await import("../../dist/engine/loop/command-builder.js");
const { LLM } = await import("../../dist/index.js");
const { Decoder } = await import("../../dist/models/decoder.js");
const { Sampler } = await import("../../dist/sampling/sampler.js");
const { Scheduler } = await import("../../dist/scheduler/scheduler.js");
const { describeMachine } = await import("../machine.mjs");
const { RequestWatch, randomPrompts, runUnwatched } = await import("./request-run.mjs");
const { llamaFolder } = await import("./shape.mjs");

const { values: flags } = readFlags({
  options: {
    batch: { type: "numbers", default: [1, 64], min: 1 },
    steps: { type: "number", default: 10, min: 1 },
    model: { type: "string", default: llamaFolder },
    json: { type: "string" },
    requests: { type: "number", min: 1 },
    "prompt-tokens": { type: "number", default: 512, min: 1 },
    "output-tokens": { type: "number", default: 128, min: 1 },
    "step-tokens": { type: "number", default: 8192, min: 1 },
    runs: { type: "number", default: 2, min: 1 },
    "engine-thread": { type: "boolean", default: false },
  },
});
const stepCount = flags.steps;
/** Steps before the first that is watched: graphs are captured, and the pipeline fills. */
const stepsBefore = 16;
const columnsOfPicture = 100;
const drawing = { temperature: 0, ignoreEos: true, detokenize: false };

/** The device that the engine opens: its marks are not the engine's concern. */
let device = null;
const openDevice = CudaDevice.open;
CudaDevice.open = async (options) => {
  device = await openDevice.call(CudaDevice, options);
  return device;
};

/** A letter of the picture for each phase of the host. */
const letters = { plan: "p", stage: "s", launch: "l", wait: "w", commit: "c" };

function watchHost() {
  const trace = new HostTrace();
  watchStep(trace, { Scheduler, CommandBuilder, Decoder, Sampler, CudaEvent });
  return trace;
}

/** The stream's marks and the host's spans of consecutive steps of `batch` sequences. */
async function watchSteps(llm, trace, { batch, promptTokens }) {
  let seen = 0;
  let zeroMs = 0;
  let marks = [];
  let spans = [];
  const onStep = ({ stepTokens, sequences }) => {
    if (stepTokens !== batch || sequences !== batch) return;
    seen++;
    if (seen === stepsBefore) {
      // Behind an idle stream a mark is made at once: there both clocks say the same.
      void device.synchronize();
      device.marks.start();
      device.marks.add("zero");
      zeroMs = performance.now();
      trace.start();
    } else if (seen === stepsBefore + stepCount + 6) {
      spans = trace.stop();
      marks = device.marks.stop();
    }
  };
  const stop = llm.listen({ onStep });
  try {
    const prompts = randomPrompts(batch, promptTokens, llm.info.vocabularySize);
    const maxTokens = stepsBefore + stepCount + (batch > 1 ? 96 : 16);
    await llm.generate(prompts, { ...drawing, maxTokens });
  } finally {
    stop();
  }
  if (marks.length === 0) throw new Error(`only ${seen} steps decoded all ${batch} sequences`);
  const host = spans.map(({ phase, start, end }) => ({
    ...{ phase, start: start - zeroMs, end: end - zeroMs },
  }));
  return { steps: stepsOf(marks), host };
}

/** From a step's first kernel to its last one; marks of one step follow each other. */
function stepsOf(marks) {
  const steps = [];
  for (const { label, ms } of marks) {
    if (label === "step") steps.push({ start: ms, end: ms });
    const current = steps.at(-1);
    if (current !== undefined && label !== "step") current.end = ms;
  }
  // The first ones were held up by the look at the clocks.
  return steps.slice(3, 3 + stepCount + 1);
}

/** What each step took, and the share of the time in which the GPU worked. */
function summarize({ steps, host }) {
  const rows = steps.slice(0, -1).map((step, at) => {
    const next = steps[at + 1].start;
    const phases = phasesBetween(host, step.start, next);
    return { at, stepMs: next - step.start, gpuMs: step.end - step.start, phases };
  });
  const sum = (key) => rows.reduce((total, row) => total + row[key], 0);
  return { rows, share: sum("gpuMs") / sum("stepMs") };
}

/** The phase that took most of the time of each column, `idle` where none did half of it. */
function lane(spans, from, to, letterOf, idle) {
  const width = (to - from) / columnsOfPicture;
  return Array.from({ length: columnsOfPicture }, (_, column) => {
    const [start, end] = [from + column * width, from + (column + 1) * width];
    const sums = Object.entries(phasesBetween(spans, start, end));
    const [best] = sums.sort(([, a], [, b]) => b - a);
    return best === undefined || best[1] < width / 4 ? idle : letterOf(best[0]);
  }).join("");
}

function print(batch, { steps, host }, { rows, share }) {
  const [from, to] = [steps[0].start, steps.at(-1).start];
  const gpu = steps.map(({ start, end }, at) => ({ phase: at % 2 === 0 ? "#" : "=", start, end }));
  const us =
    (phase) =>
    ({ phases }) =>
      (phases[phase] ?? 0) * 1000;
  console.log(`\nbatch ${batch}: ${rows.length} steps in ${(to - from).toFixed(2)} ms`);
  console.log(`GPU  ${lane(gpu, from, to, (phase) => phase, ".")}`);
  console.log(`host ${lane(host, from, to, (phase) => letters[phase], ".")}`);
  console.log(
    "GPU: #, = steps in turn, . idle; host: p plan, s stage, l launch, w wait, c commit, . other",
  );
  const columns = [
    { title: "step", of: ({ at }) => at + 1 },
    { title: "ms", of: ({ stepMs }) => stepMs },
    { title: "GPU ms", of: ({ gpuMs }) => gpuMs },
    { title: "gap us", of: ({ stepMs, gpuMs }) => (stepMs - gpuMs) * 1000 },
    ...Object.keys(letters).map((phase) => ({ title: `${phase} us`, of: us(phase) })),
  ];
  console.log(textTable(columns, rows));
  console.log(`GPU busy ${(100 * share).toFixed(2)} % of the time (wanted: 95 %)`);
}

/** Consecutive steps of decoding, for each batch size. */
async function watchDecoding() {
  const trace = watchHost();
  const batches = flags.batch;
  const llm = await load({
    engineThread: false,
    kvCache: { prefixCaching: false, dtype: "bfloat16" },
    scheduler: { stepTokensMax: 2048, runningSequencesMax: Math.max(...batches) },
  });
  const results = [];
  for (const batch of batches) {
    const watched = await watchSteps(llm, trace, { batch, promptTokens: batch === 1 ? 96 : 512 });
    const summary = summarize(watched);
    print(batch, watched, summary);
    results.push({ batch, ...summary });
  }
  await finish(llm, { results });
}

/** Whole requests, as the table loads the model for them. */
async function watchRequests() {
  const requests = flags.requests;
  const engineThread = flags["engine-thread"];
  const stepTokensMax = flags["step-tokens"];
  // The table has room for 256 in every row.
  const runningSequencesMax = Math.max(requests, Math.min(256, stepTokensMax));
  const watch = engineThread ? null : new RequestWatch(() => device);
  const llm = await load({
    engineThread,
    kvCache: { prefixCaching: false, dtype: "bfloat16", eventBufferMax: 0 },
    scheduler: { stepTokensMax, runningSequencesMax },
  });
  const promptTokens = flags["prompt-tokens"];
  const maxTokens = flags["output-tokens"];
  const title = `${requests} requests of ${promptTokens} tokens in, ${maxTokens} out`;
  const runs = [];
  for (let run = 0; run <= flags.runs; run++) {
    const prompts = randomPrompts(requests, promptTokens, llm.info.vocabularySize);
    const work = () => llm.generate(prompts, { ...drawing, maxTokens });
    if (run === 0) {
      await work();
      continue;
    }
    const found = await (watch === null ? runUnwatched(llm, work) : watch.run(llm, work));
    runs.push(summarizeRun(found));
    console.log(runText(`run ${run}: ${title}`, runs.at(-1)));
  }
  const command = ["node bench/gpu/timeline.mjs", ...process.argv.slice(2)].join(" ");
  await finish(llm, { command, runs });
}

async function load(options) {
  const llm = await LLM.load(flags.model, {
    ...{ device: "cuda", dtype: "bfloat16", randomWeights: true, cuda: cudaFromEnvironment() },
    speculative: { kind: "off" },
    ...options,
    onWarning: warn,
  });
  console.log(llm.info.device);
  return llm;
}

async function finish(llm, results) {
  const machine = { ...describeMachine(), device: llm.info.device };
  writeJson(flags.json, { machine, ...results });
  await llm[Symbol.asyncDispose]();
}

const main = flags.requests === undefined ? watchDecoding : watchRequests;
await main().catch((error) =>
  giveUp(error.code === "DEVICE_UNAVAILABLE" ? error.message : (error.stack ?? String(error))),
);
