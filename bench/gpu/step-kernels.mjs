// node bench/gpu/step-kernels.mjs [--model FOLDER] [--kind redrafter|eagle3] [--batch 1]
//     [--shapes 1x4,4x4] [--draft-vocabulary 32000] [--blocks 2] [--steps 4] [--json FILE]
//
// What each kernel of a step costs that drafts by a network and verifies what the step before
// drafted, beside a plain one of the same model (default: Llama-3.1-8B's shape, random weights).
// Nsight Compute (ncu, on the PATH) times every kernel of `--steps` steps alone, one after the
// other: so the sum is more than a step takes, in which kernels overlap. Kernels are told apart by
// name; microseconds of one step.
import { spawnSync } from "node:child_process";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import koffi from "koffi";
import { readFlags } from "../../tools/flags.mjs";
import { commandLine, describeMachine } from "../machine.mjs";
import { giveUp, namedFlags, openOrGiveUp, requireBuild, warn, writeJson } from "./gpu-bench.mjs";
import { writeRandomDrafter } from "./random-drafter.mjs";
import { llamaFolder } from "./shape.mjs";
import { textTable } from "./text-table.mjs";

await requireBuild();
const { values: flags } = readFlags({
  options: {
    model: { type: "string", default: llamaFolder },
    kind: { type: "string", default: "redrafter" },
    batch: { type: "number", default: 1, min: 1 },
    shapes: { type: "string", default: "1x4,4x4" },
    "draft-vocabulary": { type: "number", default: 32_000, min: 1 },
    blocks: { type: "number", default: 2, min: 1 },
    steps: { type: "number", default: 4, min: 1 },
    /** Runs the steps of one shape, `off` for plain ones, for the profiler. */
    run: { type: "string" },
    json: { type: "string" },
  },
});

/** Plain steps until graphs are captured and the pipeline is full. */
const stepsBefore = 24;

if (flags.run !== undefined) {
  await runSteps(flags.run);
  process.exit(0);
}

const rows = ["off", ...flags.shapes.split(",")].map((shape) => ({ shape, ...profile(shape) }));
print(rows);
writeJson(flags.json, {
  command: commandLine(),
  ...{ machine: describeMachine(), flags: namedFlags(flags), rows },
});

/** Steps between the profiler's start and its stop. */
async function runSteps(shape) {
  const { cudaFromEnvironment } = await import("../../dist/cli/cuda-environment.js");
  const { ModelDrafts } = await import("../../dist/engine/loop/model-drafts.js");
  const { LLM } = await import("../../dist/index.js");
  // A drafter that is never right would rest after a few drafts.
  ModelDrafts.prototype.verified = () => {};
  const library = koffi.load("libcuda.so.1");
  const begin = library.func("int cuProfilerStart()");
  const end = library.func("int cuProfilerStop()");
  const folder = mkdtempSync(join(tmpdir(), "perigee-drafter-"));
  writeRandomDrafter(folder, { ...flags, draftVocabulary: flags["draft-vocabulary"] });
  const [width, length] = shape === "off" ? [1, 1] : shape.split("x").map(Number);
  const { kind, batch, steps } = flags;
  const rowsMax = batch * (1 + width * length);
  const drafts = { kind, model: folder, adaptive: false, width, lengthMax: length };
  const llm = await openOrGiveUp(() =>
    LLM.load(flags.model, {
      ...{ device: "cuda", dtype: "bfloat16", randomWeights: true, engineThread: false },
      cuda: cudaFromEnvironment(),
      scheduler: { runningSequencesMax: rowsMax, stepTokensMax: Math.max(2048, rowsMax) },
      ...{ speculative: shape === "off" ? { kind: "off" } : drafts, onWarning: warn },
    }),
  );
  rmSync(folder, { recursive: true });
  let seen = 0;
  const onStep = ({ sequences }) => {
    if (sequences !== batch) return;
    seen++;
    if (seen === stepsBefore) begin();
    else if (seen === stepsBefore + steps) end();
  };
  const stop = llm.listen({ onStep });
  const prompts = Array.from({ length: batch }, (_, at) => ({
    promptTokenIds: Array.from({ length: 128 }, (_, place) => 100 + ((79 * at + place) % 3000)),
  }));
  const maxTokens = stepsBefore + steps + 40;
  await llm.generate(prompts, { temperature: 0, ignoreEos: true, maxTokens });
  stop();
  await llm.close();
}

/** Microseconds and launches of each kernel in one step. */
function profile(shape) {
  const passed = ["model", "kind", "batch", "draft-vocabulary", "blocks", "steps"];
  const given = passed.flatMap((name) => [`--${name}`, String(flags[name])]);
  const script = fileURLToPath(import.meta.url);
  const profiler = ["--profile-from-start", "off", "--clock-control", "none", "--csv"];
  const metrics = ["--metrics", "gpu__time_duration.sum", "--target-processes", "all"];
  const command = [process.execPath, script, "--run", shape, ...given];
  const { stdout, stderr, error, status } = spawnSync(
    "ncu",
    [...profiler, ...metrics, ...command],
    {
      ...{ encoding: "utf8", maxBuffer: 2 ** 30 },
    },
  );
  if (error) giveUp(`Cannot run ncu: ${error.message}`);
  const kernels = new Map();
  for (const line of stdout.split("\n")) {
    const cells = line.match(/"([^"]*)"/g)?.map((cell) => cell.slice(1, -1));
    const at = cells?.indexOf("gpu__time_duration.sum") ?? -1;
    if (at < 0) continue;
    const name = nameOf(cells[4]);
    const toUs = { ns: 1e-3, us: 1, usecond: 1, nsecond: 1e-3, ms: 1e3 }[cells[at + 1]];
    const us = Number(cells[at + 2].replaceAll(",", "")) * (toUs ?? Number.NaN);
    const known = kernels.get(name) ?? { us: 0, launches: 0 };
    kernels.set(name, { us: known.us + us, launches: known.launches + 1 });
  }
  if (kernels.size === 0) giveUp(`ncu found no kernel (status ${status}): ${stderr.slice(-2000)}`);
  const perStep = ([name, { us, launches }]) => [
    name,
    { us: us / flags.steps, launches: launches / flags.steps },
  ];
  return { kernels: Object.fromEntries([...kernels].map(perStep)) };
}

/** Without template arguments and parameters, which cuBLAS has many of. */
function nameOf(name) {
  const plain = name
    .replace(/\(.*$/, "")
    .replace(/<.*$/, "")
    .replace(/^void /, "");
  return plain.startsWith("perigee_") ? plain.slice("perigee_".length) : `cuBLAS: ${plain}`;
}

function print(shapes) {
  const [plain, ...drafted] = shapes;
  const names = new Set(shapes.flatMap(({ kernels }) => Object.keys(kernels)));
  const usOf = (kernels, name) => kernels[name]?.us ?? 0;
  const sumOf = ({ kernels }) => Object.values(kernels).reduce((sum, { us }) => sum + us, 0);
  const last = shapes.at(-1);
  const order = [...names].sort((a, b) => usOf(last.kernels, b) - usOf(last.kernels, a));
  const table = order.map((name) => ({ name, of: ({ kernels }) => usOf(kernels, name) }));
  table.push({ name: "all", of: sumOf });
  const columns = [
    { title: "kernel, us a step", left: true, of: ({ name }) => name },
    ...shapes.map((shape) => ({ title: shape.shape, of: ({ of }) => of(shape) })),
    ...drafted.map((shape) => ({
      title: `${shape.shape} beyond plain`,
      of: ({ of }) => of(shape) - of(plain),
    })),
  ];
  console.log(textTable(columns, table));
}
