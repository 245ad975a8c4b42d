/**
 * What the router costs: processor time of its process for a request and for a relayed token, and
 * the time to the first token that it adds. Workers are scripted, in a process of their own.
 *
 *   node bench/cluster/router-cost.mjs [--requests 1000] [--streams 100] [--json]
 *
 * Each case runs twice: with texts (nothing is tokenized), and with the bundled model's tokenizer.
 * Beside each token stands what a bare relay of bytes costs in the same run: the floor of Node.
 */
import { spawn } from "node:child_process";
import { readFileSync } from "node:fs";
import { Agent, request as open } from "node:http";
import { createInterface } from "node:readline";
import { readFlags } from "../../tools/flags.mjs";

const { values: flags } = readFlags({
  options: {
    requests: { type: "number", default: 1000, min: 10 },
    streams: { type: "number", default: 100, min: 1 },
    json: { type: "boolean", default: false },
  },
});

const TOKENS = 200;
const CONCURRENCY = 16;
const US_PER_TICK = 10_000;
const agent = new Agent({ keepAlive: true, maxSockets: Number.POSITIVE_INFINITY });
const children = [];

function start(args, stream, pattern) {
  const child = spawn(process.execPath, args, { stdio: ["ignore", "pipe", "pipe"] });
  children.push(child);
  return new Promise((resolve, reject) => {
    child.once("exit", (code) => reject(new Error(`${args[0]} ended with ${code}`)));
    createInterface({ input: child[stream] }).on("line", (line) => {
      const found = pattern.exec(line);
      if (found !== null) resolve({ child, url: found[0] });
    });
  });
}

/** Processor time of a process so far, in us; Linux. */
function cpuUs({ pid }) {
  const fields = readFileSync(`/proc/${pid}/stat`, "utf8").split(") ")[1].split(" ");
  return (Number(fields[11]) + Number(fields[12])) * US_PER_TICK;
}

function rssMiB({ pid }) {
  return Number(/VmRSS:\s+(\d+)/.exec(readFileSync(`/proc/${pid}/status`, "utf8"))[1]) / 1024;
}

/** Resolves with the time to the first byte of the body, in ms. */
function post(url, body) {
  const { hostname, port } = new URL(url);
  const text = JSON.stringify(body);
  const headers = { "content-type": "application/json", "content-length": Buffer.byteLength(text) };
  const startMs = performance.now();
  return new Promise((resolve, reject) => {
    const path = "/v1/chat/completions";
    const sent = open({ hostname, port, path, method: "POST", agent, headers }, (answer) => {
      let firstMs = null;
      answer.on("data", () => {
        firstMs ??= performance.now() - startMs;
      });
      answer.on("end", () => {
        if (answer.statusCode === 200) resolve(firstMs);
        else reject(new Error(`status ${answer.statusCode}`));
      });
      answer.on("error", reject);
    });
    sent.on("error", reject);
    sent.end(text);
  });
}

async function many(count, concurrency, run) {
  let next = 0;
  const worker = async () => {
    while (next < count) await run(next++);
  };
  await Promise.all(Array.from({ length: concurrency }, worker));
}

const WORDS = "the river runs past old mills and new towns while people count boats and days ";

/** Some `tokens` tokens, each prompt with another beginning. */
function chat(at, tokens, fields) {
  const content = `${at} ${WORDS.repeat(Math.ceil(tokens / 15))}`;
  return { messages: [{ role: "user", content }], max_tokens: 1, ...fields };
}

const percentile = (list, share) => list.toSorted((a, b) => a - b)[Math.floor(list.length * share)];

async function costPerRequest({ child, url }, count, body) {
  await many(Math.min(count, 200), CONCURRENCY, (at) => post(url, body(-at))); // warm
  const before = cpuUs(child);
  const startMs = performance.now();
  await many(count, CONCURRENCY, (at) => post(url, body(at)));
  const us = (cpuUs(child) - before) / count;
  return { cpuMs: us / 1000, perSecond: (count * 1000) / (performance.now() - startMs) };
}

async function streamCost(router, count) {
  const body = (at) => chat(at, 20, { stream: true, max_tokens: TOKENS });
  await many(20, 20, (at) => post(router.url, body(-at)));
  const before = cpuUs(router.child);
  await many(count, count, (at) => post(router.url, body(at)));
  return (cpuUs(router.child) - before) / count;
}

/** Streams of one token at a rate, in turns to the worker and through the router. */
async function addedTtft(router, worker, perSecond) {
  const times = { direct: [], routed: [] };
  const pending = [];
  const count = flags.requests;
  const startMs = performance.now();
  for (let at = 0; at < count; at++) {
    const dueMs = startMs + (at * 1000) / perSecond;
    while (performance.now() < dueMs) await new Promise((go) => setTimeout(go, 1));
    const kind = at % 2 === 0 ? "direct" : "routed";
    const { url } = kind === "direct" ? worker : router;
    const body = chat(at, 200, { stream: true });
    pending.push(post(url, body).then((ms) => times[kind].push(ms)));
  }
  await Promise.all(pending);
  const at = (share) => percentile(times.routed, share) - percentile(times.direct, share);
  return { p50: at(0.5), p99: at(0.99) };
}

async function measure(name, workerFlags) {
  const worker = await start(
    ["bench/cluster/scripted-worker.mjs", ...workerFlags],
    "stdout",
    /http:\S+/,
  );
  const router = await start(
    [
      ...["dist/cli/main.js", "route", "--port", "0", "--log-level", "warn"],
      ...["--worker", worker.url],
    ],
    "stderr",
    /(?<=routing at )http:[\w.:/]+/,
  );
  await new Promise((go) => setTimeout(go, 3000)); // its tokenizer is compared with the worker's
  const short = await costPerRequest(router, flags.requests, (at) => chat(at, 1000, {}));
  const one = await streamCost(router, flags.streams);
  const empty = await costPerRequest(router, flags.requests, (at) =>
    chat(at, 20, { stream: true }),
  );
  const bare = await start(["bench/cluster/bare-relay.mjs", worker.url], "stdout", /http:\S+/);
  const bareTokens = async (count) => (await streamCost(bare, count)) / TOKENS;
  const row = {
    name,
    "chat 1k, ms": short.cpuMs,
    "chat 1k, a second and core": 1000 / short.cpuMs,
    "stream of 200, ms": one / 1000,
    "a relayed token, us": (one - empty.cpuMs * 1000) / (TOKENS - 1),
    "a token, bare relay, us": await bareTokens(flags.streams),
    "a stream of 1, ms": empty.cpuMs,
  };
  const ttft = await addedTtft(router, worker, Math.min(400, 500 / short.cpuMs));
  row["added TTFT p50, ms"] = ttft.p50;
  row["added TTFT p99, ms"] = ttft.p99;
  const long = await costPerRequest(router, 40, (at) => chat(at, 100_000, {}));
  row["chat 100k, ms"] = long.cpuMs;
  const thousand = await streamCost(router, 1000);
  row["1,000 streams at once: a token, us"] = (thousand - empty.cpuMs * 1000) / (TOKENS - 1);
  row["1,000 streams, bare relay: a token, us"] = await bareTokens(1000);
  row["router's memory, MiB"] = rssMiB(router.child);
  for (const { child } of [bare, router, worker]) {
    child.removeAllListeners("exit");
    child.kill("SIGKILL");
  }
  return row;
}

process.once("exit", () => {
  for (const child of children) child.kill("SIGKILL");
});
const rows = [
  await measure("texts", ["--model", "other", "--texts"]),
  await measure("tokenized", ["--model", "pocket"]),
];
if (flags.json) console.log(JSON.stringify(rows));
else {
  for (const { name, ...values } of rows) {
    console.log(name);
    for (const [label, value] of Object.entries(values)) {
      console.log(`  ${label.padEnd(40)}${value.toFixed(2).padStart(10)}`);
    }
  }
}
process.exit(0);
