/**
 * node bench/reproduction/validation.mjs [--only mock,model] [--requests 200] [--seed 1]
 *   [--out FILE]
 *
 * The simulator against real processes on one machine: the same traffic through `perigee route` to
 * workers of `perigee worker`, and through the simulated fleet. `mock`: four workers whose steps
 * take the time of a cost model, ten times as long as an H200's, so that a small machine keeps up.
 * `model`: two workers with the bundled model on one thread each, whose costs are measured first,
 * through the router, and fitted. TTFT, TBT (mean of a request) and hit rate, side by side.
 */
import { readFileSync } from "node:fs";
import { fileURLToPath } from "node:url";
import {
  costPreset,
  fitCost,
  promptOf,
  runFleet,
  speededUp,
  syntheticTrace,
  TrafficWords,
  traceRequests,
} from "../../dist/simulator/index.js";
import { readFlags } from "../../tools/flags.mjs";
import { freePort } from "../cluster/free-port.mjs";
import { LoadStats } from "../cluster/load-stats.mjs";
import { end, launch, until } from "../cluster/processes.mjs";
import { askStream } from "../cluster/stream-client.mjs";
import { keep } from "./runs.mjs";

const root = fileURLToPath(new URL("../..", import.meta.url));
const MODEL = `${root}models/pocket`;
const { values: flags } = readFlags({
  options: {
    only: { type: "string", default: "mock,model" },
    requests: { type: "number", default: 200, min: 1 },
    seed: { type: "number", default: 1 },
    out: { type: "string", published: "bench/results/reproduction-validation.json" },
  },
});

const SLOWER = 10;
const BLOCKS = 20_000;
const BLOCK_TOKENS = 16;
/** Of the synthetic trace: lengths are divided, and so is the rate. */
const CASES = {
  mock: {
    ...{ workers: 4, shorter: 16, promptMax: 1800, outputMax: 60, slower: 2 },
    words: [
      ...["--mock", "--cost-model", "h200-8b", "--speedup", String(1 / SLOWER)],
      ...["--mock-blocks", `${BLOCKS},0,0`],
    ],
  },
  model: {
    ...{ workers: 2, shorter: 32, promptMax: 1000, outputMax: 40, slower: 3 },
    words: ["--threads", "1"],
  },
};
const tokenizer = JSON.parse(readFileSync(`${MODEL}/tokenizer.json`, "utf8"));
const words = TrafficWords.of(tokenizer);

/** The synthetic trace, made small enough for a machine: what is shared stays shared. */
function trafficOf({ shorter, promptMax, outputMax, slower }) {
  const { seed } = flags;
  const whole = syntheticTrace({ seed, requests: flags.requests });
  const blockTokens = whole.blockTokens / shorter;
  const requests = whole.requests.map((request) => {
    const inputTokens = Math.min(Math.max(1, Math.round(request.inputTokens / shorter)), promptMax);
    return {
      ...request,
      ...{ inputTokens, timestampMs: request.timestampMs * slower },
      outputTokens: Math.min(request.outputTokens, outputMax),
      ids: request.ids.slice(0, Math.ceil(inputTokens / blockTokens)),
    };
  });
  return traceRequests({ ...whole, requests, blockTokens }, { name: "v", seed, clockStepMs: 1 });
}

/** Workers and their router, as an operator starts them. */
async function startFleet({ workers, words: workerWords }) {
  const cli = `${root}dist/cli/main.js`;
  const ports = [];
  for (let at = 0; at <= workers; at++) ports.push(await freePort());
  const [routerPort, ...workerPorts] = ports;
  const processes = workerPorts.map((port) =>
    launch(process.execPath, [cli, "worker", MODEL, "--port", String(port), ...workerWords]),
  );
  const urls = workerPorts.map((port) => `http://127.0.0.1:${port}`);
  for (const url of urls) await until(url, async () => (await fetch(`${url}/v1/models`)).ok);
  const addresses = urls.flatMap((url) => ["--worker", url]);
  processes.push(
    launch(process.execPath, [cli, "route", "--port", String(routerPort), ...addresses]),
  );
  const url = `http://127.0.0.1:${routerPort}`;
  await until(url, async () => {
    const { data } = await (await fetch(`${url}/v1/models`)).json();
    return data?.[0]?.id ?? false;
  });
  const [{ id: model }] = (await (await fetch(`${url}/v1/models`)).json()).data;
  const ask = (prompt, outputTokens) =>
    askStream(`${url}/v1/completions`, {
      headers: { "content-type": "application/json" },
      body: JSON.stringify({
        ...{ model, prompt: [...prompt], max_tokens: outputTokens, temperature: 0 },
        ...{ ignore_eos: true, stream: true, stream_options: { include_usage: true } },
      }),
      timeoutMs: 600_000,
    });
  const stop = () => Promise.all(processes.reverse().map(end));
  return { ask, stop };
}

/** Processes compile their code while they serve their first requests. */
async function warmUp({ ask }) {
  for (let round = 0; round < 5; round++) {
    const prompts = Array.from({ length: 8 }, (_, at) => freshPrompt(200, 8 * round + at));
    await Promise.all(prompts.map((prompt) => ask(prompt, 20)));
  }
}

/** Contents that no traffic has. */
function freshPrompt(tokens, name) {
  const pieces = [{ role: "user", name: [name, 9], tokens }];
  return promptOf({ pieces, promptTokens: tokens }, words);
}

async function measured({ ask }, traffic) {
  const stats = new LoadStats();
  const startMs = performance.now();
  await Promise.all(
    traffic.requests.map(async (request) => {
      const prompt = promptOf(request, words);
      await sleep(request.atMs - (performance.now() - startMs));
      stats.add(await ask(prompt, request.outputTokens));
    }),
  );
  const summary = stats.summary();
  if (Object.keys(summary.errors).length > 0) throw new Error(JSON.stringify(summary.errors));
  return summary;
}

const sleep = (ms) => new Promise((resolve) => setTimeout(resolve, Math.max(0, ms)));

/** Costs of a worker as its clients see them: prompts alone, then streams side by side. */
async function measuredCosts({ ask }) {
  const points = [];
  let name = 1000;
  const fresh = (tokens) => freshPrompt(tokens, name++);
  for (const tokens of [32, 128, 256, 500, 900].flatMap((length) => [length, length, length])) {
    const { firstMs } = await ask(fresh(tokens), 1);
    const prompt = { promptTokens: tokens, promptPairs: (tokens * (tokens + 1)) / 2 };
    const steps = Math.ceil(tokens / 512);
    points.push({ steps, ...prompt, decoding: 0, contextTokens: 0, ms: firstMs });
  }
  const outputs = 33;
  for (const tokens of [32, 500, 500]) {
    const { firstMs, lastMs } = await ask(fresh(tokens), outputs);
    const steps = outputs - 1;
    const contextTokens = steps * (tokens + outputs / 2);
    const none = { promptTokens: 0, promptPairs: 0 };
    points.push({ steps, ...none, decoding: steps, contextTokens, ms: lastMs - firstMs });
  }
  return fitCost(points).cost;
}

async function compare(name) {
  const settings = CASES[name];
  const traffic = trafficOf(settings);
  const fleet = await startFleet(settings);
  try {
    await warmUp(fleet);
    const model =
      name === "mock"
        ? speededUp(costPreset("h200-8b"), 1 / SLOWER)
        : { ...costPreset("cpu-110m"), name: "measured", step: await measuredCosts(fleet) };
    const real = await measured(fleet, traffic);
    const simulated = runFleet({
      ...{ workers: settings.workers, policy: "kv", model, traffic, seed: flags.seed },
      ...{ blockTokens: BLOCK_TOKENS, blocks: [BLOCKS, 0, 0] },
    });
    const row = (values) => ({
      ttftMs: rounded(values.ttftMs),
      tbtMs: rounded(values.tbtMs),
      hitRate: Number(values.hitRate.toFixed(4)),
    });
    const { completed } = real;
    return {
      name,
      workers: settings.workers,
      completed,
      real: row(real),
      simulated: row(simulated),
    };
  } finally {
    await fleet.stop();
  }
}

function rounded(quantiles) {
  return Object.fromEntries(
    Object.entries(quantiles).map(([name, value]) => [name, Number(value.toFixed(1))]),
  );
}

const rows = [];
for (const name of flags.only.split(",")) {
  const row = await compare(name);
  rows.push(row);
  console.log(JSON.stringify(row));
}
keep({
  ...{ name: "validation", out: flags.out, note: "real processes beside a simulated clock" },
  rows,
});
process.exit(0);
