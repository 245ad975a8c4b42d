// node bench/grammar-pauses.mjs [--runs 3] [--samples 8] [--output FILE]
//
// What structured output costs those who do not ask for it: `perigee serve` of the bundled model,
// eight streams that are begun again when they end, and beside them each grammar of
// bench/grammar-cases.mjs, compiled anew, with so many samples of 200 tokens. Prints the longest
// time between two events of a stream meanwhile, beside that of a while without any request; the
// median of the runs. Needs npm run build.
import { spawn } from "node:child_process";
import { writeFileSync } from "node:fs";
import { performance } from "node:perf_hooks";
import { setTimeout as sleep } from "node:timers/promises";
import { readFlags } from "../tools/flags.mjs";
import { GRAMMARS } from "./grammar-cases.mjs";
import { describeMachine } from "./machine.mjs";

const { values: flags } = readFlags({
  options: {
    runs: { type: "number", default: 3, min: 1 },
    samples: { type: "number", default: 8, min: 1 },
    output: { type: "string", published: "bench/results/grammar-pauses.json" },
  },
});
const STREAMS = 8;
const QUIET_MS = 5_000;

let worstMs = 0;
let stopped = false;

async function startServer() {
  const server = spawn(
    process.execPath,
    ["dist/cli/main.js", "serve", "models/pocket", "--port", "0", "--log-level", "silent"],
    { stdio: ["ignore", "ignore", "pipe"] },
  );
  process.once("exit", () => server.kill("SIGKILL"));
  let text = "";
  const url = await new Promise((resolve, reject) => {
    server.stderr.on("data", (chunk) => {
      text += chunk;
      const match = /serving .* at (http:[^\s"]+)/.exec(text);
      if (match !== null) resolve(match[1]);
    });
    server.once("exit", () => reject(new Error(text)));
  });
  return { server, url };
}

function post(url, body) {
  const headers = { "content-type": "application/json" };
  return fetch(`${url}/v1/completions`, { method: "POST", headers, body: JSON.stringify(body) });
}

/** An ordinary client. */
async function keepStreaming(url, place) {
  while (!stopped) {
    const prompt = `A cache ${place} is`;
    const { body } = await post(url, {
      ...{ prompt, stream: true, max_tokens: 100, ignore_eos: true },
    });
    let lastMs = null;
    for await (const _chunk of body) {
      const nowMs = performance.now();
      if (lastMs !== null) worstMs = Math.max(worstMs, nowMs - lastMs);
      lastMs = nowMs;
    }
  }
}

/** The longest pause while `work` runs. */
async function pauseOf(work) {
  worstMs = 0;
  const startMs = performance.now();
  await work();
  return { pauseMs: worstMs, ms: performance.now() - startMs };
}

/** A grammar that no cache has seen: its source has something of this run. */
function fresh(output, run) {
  if (output.json === undefined) return output;
  return { json: { ...output.json, title: `run ${run}` } };
}

function median(values) {
  return [...values].sort((a, b) => a - b)[Math.floor(values.length / 2)];
}

const { server, url } = await startServer();
const readers = Array.from({ length: STREAMS }, (_, place) => keepStreaming(url, place));
await sleep(QUIET_MS);
const quiet = [];
for (let run = 0; run < flags.runs; run++) quiet.push(await pauseOf(() => sleep(QUIET_MS)));
const quietMs = median(quiet.map(({ pauseMs }) => pauseMs));
console.log(`${"no request".padEnd(22)} longest pause ${quietMs.toFixed(0)} ms`);
const results = [];
for (const [name, output] of Object.entries(GRAMMARS)) {
  const runs = [];
  let status = 0;
  for (let run = 0; run < flags.runs; run++) {
    const { json, jsonObject, ...others } = fresh(output, run);
    const wanted = { ...others, ...(json && { json }), ...(jsonObject && { json_object: true }) };
    const request = {
      ...{ prompt: "{", max_tokens: 200, n: flags.samples, temperature: 1 },
      structured_outputs: wanted,
    };
    runs.push(
      await pauseOf(async () => {
        const answer = await post(url, request);
        await answer.text();
        status = answer.status;
      }),
    );
  }
  const pauseMs = Math.round(median(runs.map((run) => run.pauseMs)));
  const ms = Math.round(median(runs.map((run) => run.ms)));
  results.push({ grammar: name, status, pauseMs, ms });
  console.log(`${name.padEnd(22)} longest pause ${pauseMs} ms, answered ${status} in ${ms} ms`);
}
stopped = true;
await Promise.all(readers);
server.kill();
const command = `node bench/grammar-pauses.mjs --runs ${flags.runs} --samples ${flags.samples}`;
const report = { command, machine: await describeMachine(), quietMs: Math.round(quietMs), results };
writeFileSync(flags.output, `${JSON.stringify(report, null, 2)}\n`);
