/**
 * What the router costs: processor time of its process for a request and for a relayed token, and
 * the time to the first token that it adds. Workers are scripted, in a process of their own.
 *
 *   node bench/cluster/router-cost.mjs [--requests 1000] [--warm 5000] [--streams 100] [--json]
 *
 * Each case runs twice: with texts (nothing is tokenized), and with the bundled model's tokenizer.
 * A router's first requests, which V8 compiles its code for, stand apart from later ones. Beside
 * each token stands what a bare relay of bytes costs in the same run: the floor of Node.
 */
import { spawn } from "node:child_process";
import { readFileSync } from "node:fs";
import { Agent, request as open } from "node:http";
import { createInterface } from "node:readline";
import { readFlags } from "../../tools/flags.mjs";
import { median, threadCpuMs } from "../machine.mjs";

const { values: flags } = readFlags({
  options: {
    requests: { type: "number", default: 1000, min: 10 },
    // Those behind the first 1,000 that are not measured.
    warm: { type: "number", default: 5000, min: 0 },
    streams: { type: "number", default: 100, min: 1 },
    json: { type: "boolean", default: false },
  },
});

const TOKENS = 200;
/** While all streams are between these, none begins or ends. */
const BEGUN_TOKENS = 20;
const LAST_TOKENS = 190;
const ROUNDS = 3;
const CONCURRENCY = 16;
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

/** Processor time so far of a process's threads, none of which may end meanwhile; in us, Linux. */
function cpuUs({ pid }) {
  return 1000 * [...threadCpuMs(pid).values()].reduce((sum, ms) => sum + ms, 0);
}

function rssMiB({ pid }) {
  return Number(/VmRSS:\s+(\d+)/.exec(readFileSync(`/proc/${pid}/status`, "utf8"))[1]) / 1024;
}

const EVENT = Buffer.from("data: {");

function eventsIn(bytes) {
  let count = 0;
  for (let at = bytes.indexOf(EVENT); at >= 0; at = bytes.indexOf(EVENT, at + 1)) count++;
  return count;
}

/** Resolves with the time to the first byte of the body, in ms. */
function post(url, body, onBytes) {
  const { hostname, port } = new URL(url);
  const text = JSON.stringify(body);
  const headers = { "content-type": "application/json", "content-length": Buffer.byteLength(text) };
  const startMs = performance.now();
  return new Promise((resolve, reject) => {
    const path = "/v1/chat/completions";
    const sent = open({ hostname, port, path, method: "POST", agent, headers }, (answer) => {
      let firstMs = null;
      answer.on("data", (bytes) => {
        firstMs ??= performance.now() - startMs;
        onBytes?.(bytes);
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
  const before = cpuUs(child);
  const startMs = performance.now();
  await many(count, CONCURRENCY, (at) => post(url, body(at)));
  const us = (cpuUs(child) - before) / count;
  return { cpuMs: us / 1000, perSecond: (count * 1000) / (performance.now() - startMs) };
}

const pause = (ms) => new Promise((go) => setTimeout(go, ms));

/**
 * Streams that begin at once: processor time of a token while all of them run, and what is left of
 * a stream for its beginning and its end. In us.
 */
async function streamRound(relay, count) {
  const body = (at) => chat(at, 20, { stream: true, max_tokens: TOKENS });
  await many(20, 20, (at) => post(relay.url, { ...body(-at), max_tokens: 20 }));
  const tokens = new Array(count).fill(0);
  const look = () => ({ cpu: cpuUs(relay.child), tokens: tokens.reduce((sum, one) => sum + one) });
  const startCpu = cpuUs(relay.child);
  const ends = many(count, count, (at) =>
    post(relay.url, body(at), (bytes) => {
      tokens[at] += eventsIn(bytes);
    }),
  );
  while (Math.min(...tokens) < BEGUN_TOKENS) await pause(5);
  const from = look();
  while (Math.max(...tokens) < LAST_TOKENS) await pause(5);
  const to = look();
  await ends;
  if (to.tokens === from.tokens) throw new Error("the first streams ended before all had begun");
  const token = (to.cpu - from.cpu) / (to.tokens - from.tokens);
  return { token, rest: (cpuUs(relay.child) - startCpu) / count - TOKENS * token };
}

/** Medians of rounds in which the relays take turns, as a machine's speed changes with time. */
async function streamCosts(relays, count) {
  const rounds = [];
  for (let round = 0; round < ROUNDS; round++) {
    rounds.push([]);
    for (const relay of relays) rounds[round].push(await streamRound(relay, count));
  }
  return relays.map((_, at) => ({
    token: median(rounds.map((round) => round[at].token)),
    rest: median(rounds.map((round) => round[at].rest)),
  }));
}

/** Streams of one token at a rate, in turns to the worker and through the router. */
async function ttftRound(router, worker, perSecond) {
  const times = { direct: [], routed: [] };
  const pending = [];
  const count = 2 * flags.requests;
  const startMs = performance.now();
  for (let at = 0; at < count; at++) {
    const dueMs = startMs + (at * 1000) / perSecond;
    while (performance.now() < dueMs) await pause(1);
    const kind = at % 2 === 0 ? "direct" : "routed";
    const { url } = kind === "direct" ? worker : router;
    const body = chat(at, 200, { stream: true });
    pending.push(post(url, body).then((ms) => times[kind].push(ms)));
  }
  await Promise.all(pending);
  const at = (share) => percentile(times.routed, share) - percentile(times.direct, share);
  return { p50: at(0.5), p99: at(0.99) };
}

/** Medians of rounds. */
async function addedTtft(router, worker, perSecond) {
  const rounds = [];
  for (let round = 0; round < ROUNDS; round++) {
    rounds.push(await ttftRound(router, worker, perSecond));
  }
  return {
    p50: median(rounds.map(({ p50 }) => p50)),
    p99: median(rounds.map(({ p99 }) => p99)),
  };
}

async function measure(name, workerFlags) {
  let asked = 0;
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
  await pause(3000); // its tokenizer is compared with the worker's
  const ask = (count, fields) => {
    const from = asked;
    asked += count;
    return costPerRequest(router, count, (at) => chat(from + at, ...fields));
  };
  const first = await ask(1000, [1000, {}]);
  await ask(flags.warm, [1000, {}]);
  const short = await ask(flags.requests, [1000, {}]);
  const empty = await ask(flags.requests, [20, { stream: true }]);
  const bare = await start(["bench/cluster/bare-relay.mjs", worker.url], "stdout", /http:\S+/);
  const [some, bareSome] = await streamCosts([router, bare], flags.streams);
  const ttft = await addedTtft(router, worker, Math.min(400, 500 / short.cpuMs));
  const long = await ask(40, [100_000, {}]);
  const [thousand, bareThousand] = await streamCosts([router, bare], 1000);
  const row = {
    name,
    "chat 1k, the first 1,000, ms": first.cpuMs,
    "chat 1k, ms": short.cpuMs,
    "chat 1k, a second and core": 1000 / short.cpuMs,
    "a stream of 1, ms": empty.cpuMs,
    "chat 100k, ms": long.cpuMs,
    [`${flags.streams} streams at once: a token, us`]: some.token,
    [`${flags.streams} streams, bare relay: a token, us`]: bareSome.token,
    "1,000 streams at once: a token, us": thousand.token,
    "1,000 streams, bare relay: a token, us": bareThousand.token,
    "1,000 streams at once: the rest of one, ms": thousand.rest / 1000,
    "added TTFT p50, ms": ttft.p50,
    "added TTFT p99, ms": ttft.p99,
    "router's memory, MiB": rssMiB(router.child),
  };
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
      console.log(`  ${label.padEnd(44)}${value.toFixed(2).padStart(10)}`);
    }
  }
}
process.exit(0);
