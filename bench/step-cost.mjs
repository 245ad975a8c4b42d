/**
 * node bench/step-cost.mjs [--sequences 1,64,256] [--steps 1000] [--context 600] [--no-overlap]
 *   [--out FILE]
 *
 * What a decoding step costs the host: the whole engine over a device whose ops do nothing, so that
 * all time is the host's. µs per step, split over its parts, medians; `post` is what handing the
 * step's news to the other thread costs this one, `receive` what it costs the other one to read
 * them. Runs from dist; prints JSON.
 */
import { copyFileSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { deserialize, serialize } from "node:v8";
import { ReferenceDevice } from "../dist/devices/index.js";
import { CommandBuilder } from "../dist/engine/loop/command-builder.js";
import { CommandRunner } from "../dist/engine/loop/command-runner.js";
import { Decoder } from "../dist/models/index.js";
import { Sampler, SamplingParams } from "../dist/sampling/index.js";
import { Scheduler } from "../dist/scheduler/index.js";
import { readFlags } from "../tools/flags.mjs";
import { openEngine } from "./bare-engine.mjs";
import { describeMachine, median, printResult } from "./machine.mjs";

/** A token that ends nothing. */
const TOKEN = 100;
const WARM_UP_STEPS = 100;
/** Small, so that its cache is: the host does the same for every size. */
const MODEL = longContextModel("test/fixtures/models/llama");
const { values: flags } = readFlags({
  options: {
    sequences: { type: "numbers", default: [1, 64, 256], min: 1 },
    steps: { type: "number", default: 1000, min: 1 },
    context: { type: "number", default: 600 },
    "no-overlap": { type: "boolean", default: false },
    out: { type: "string" },
  },
});

ReferenceDevice.prototype.readLater = (tensor) => {
  const tokens = new Int32Array(tensor.shape[0]).fill(TOKEN);
  return { take: async () => tokens };
};

/** µs of the calls of the current step, by part. */
const spent = new Map();

/** Adds the time of a method, up to where its promise settles, to a part. */
function watch(prototype, method, part) {
  const run = prototype[method];
  const add = (started) =>
    spent.set(part, (spent.get(part) ?? 0) + (performance.now() - started) * 1000);
  prototype[method] = function (...given) {
    const started = performance.now();
    const result = run.apply(this, given);
    if (!(result instanceof Promise)) {
      add(started);
      return result;
    }
    return result.finally(() => add(started));
  };
}

watch(Scheduler.prototype, "plan", "plan");
watch(Scheduler.prototype, "begin", "begin");
watch(Scheduler.prototype, "commit", "commit");
watch(CommandBuilder.prototype, "build", "build");
watch(Decoder.prototype, "stage", "stage");
watch(Decoder.prototype, "forward", "forward");
watch(Sampler.prototype, "start", "draw");
watch(CommandRunner.prototype, "start", "start");

const rounded = (value) => Math.round(value * 10) / 10;

/** Steps of `count` sequences in the middle of their answers. */
async function measure(count) {
  const steps = flags.steps;
  const context = flags.context;
  const blockTokens = 16;
  const blocks = count * Math.ceil((context + steps + WARM_UP_STEPS + 64) / blockTokens);
  const options = {
    ...{ device: "reference", dtype: "float32", overlapSteps: !flags["no-overlap"] },
    kvCache: { blockTokens, prefixCaching: true },
    scheduler: { runningSequencesMax: count, stepTokensMax: 8192, contextTokensMax: 4096 },
  };
  const { engine, device, close } = await openEngine({ path: MODEL, options, blocks });
  // Ops are the functions that the reference device has as fields.
  for (const [name, op] of Object.entries(device)) {
    if (typeof op === "function") device[name] = () => {};
  }
  const params = SamplingParams.parse({
    temperature: 0.8,
    topP: 0.95,
    ignoreEos: true,
    maxTokens: null,
  });
  for (let key = 1; key <= count; key++) {
    const promptTokenIds = Int32Array.from({ length: context }, (_, at) => (key * 7 + at) % 250);
    engine.add({ ...blank, key, promptTokenIds, params, seed: BigInt(key) });
  }
  const times = new Map();
  const note = (part, micros) => times.set(part, [...(times.get(part) ?? []), micros]);
  for (let step = -WARM_UP_STEPS; step < steps; step++) {
    spent.clear();
    const started = performance.now();
    const news = await engine.step();
    const stepped = performance.now();
    const message = serialize({ type: "step", ...news, stats: engine.stats() });
    const posted = performance.now();
    deserialize(message);
    const received = performance.now();
    if (step < 0 || news.outputs.length !== count) continue;
    for (const [part, micros] of spent) note(part, micros);
    note("step", (stepped - started) * 1000);
    note("post", (posted - stepped) * 1000);
    note("receive", (received - posted) * 1000);
    note("messageBytes", message.length);
  }
  await close();
  const middle = (part) => rounded(median(times.get(part) ?? [0]));
  const parts = [...times.keys()].map((part) => [part, middle(part)]);
  const known = ["plan", "begin", "commit", "start"].reduce((sum, part) => sum + middle(part), 0);
  return { sequences: count, ...Object.fromEntries(parts), rest: rounded(middle("step") - known) };
}

/** A copy of a model that may have long sequences; their values are of no interest here. */
function longContextModel(path) {
  const folder = mkdtempSync(join(tmpdir(), "perigee-step-cost-"));
  process.on("exit", () => rmSync(folder, { recursive: true }));
  const config = JSON.parse(readFileSync(join(path, "config.json"), "utf8"));
  const changed = { ...config, max_position_embeddings: 1 << 17 };
  writeFileSync(join(folder, "config.json"), JSON.stringify(changed));
  copyFileSync(join(path, "model.safetensors"), join(folder, "model.safetensors"));
  return folder;
}

const blank = {
  ...{ requestId: "request", cacheSalt: null, retention: null, priority: 0 },
  ...{ badWordTokenIds: [], thinking: null, promptLogits: false },
  ...{ draftShape: null, predictedTokenIds: null },
};

const rows = [];
for (const count of flags.sequences) rows.push(await measure(count));
const command = `node bench/step-cost.mjs ${process.argv.slice(2).join(" ")}`.trim();
printResult({ command, machine: describeMachine(), microsPerStep: rows }, flags.out);
