/**
 * node bench/soak.mjs [--streams 200] [--at-once 16] [--malformed 1000] [--rounds 6] [--minutes 0]
 *   [--speculative redrafter] [--seed 1] [--out FILE]
 *
 * A real server on the bundled model: streams that hang up at random moments, then malformed
 * requests; several rounds of both, as many as `rounds` says and as long as `minutes` says.
 * Afterwards no block may be held, the server must still answer, and the last rounds may not have
 * cost memory. With `speculative` every second stream is read to its end, and drafts must have been
 * accepted. Prints JSON; exits 1 where one of these fails.
 */
import { spawn } from "node:child_process";
import { readFileSync } from "node:fs";
import { connect } from "node:net";
import { fileURLToPath } from "node:url";
import { readFlags } from "../tools/flags.mjs";
import { describeMachine, printResult } from "./machine.mjs";

const root = fileURLToPath(new URL("..", import.meta.url));
const { values: flags } = readFlags({
  options: {
    streams: { type: "number", default: 200, min: 1 },
    "at-once": { type: "number", default: 16, min: 1 },
    malformed: { type: "number", default: 1000 },
    rounds: { type: "number", default: 6, min: 1 },
    minutes: { type: "number", default: 0, min: 0 },
    speculative: { type: "string", default: "off" },
    seed: { type: "number", default: 1 },
    out: { type: "string" },
  },
});
/** So small that the first round touches all of it, and that sequences are preempted. */
const POOL_BYTES = 32 * 2 ** 20;
/** Memory may grow by so much between equal rounds: allocators keep a little. */
const GROWTH_MAX_MB = 24;

/** Seeded uniform draws (xorshift32). */
function createRandom(seed) {
  let state = seed >>> 0 || 1;
  return () => {
    state ^= state << 13;
    state ^= state >>> 17;
    state ^= state << 5;
    return (state >>> 0) / 2 ** 32;
  };
}

async function startServer() {
  const server = spawn(
    process.execPath,
    [
      `${root}dist/cli/main.js`,
      "serve",
      "--port",
      "0",
      "--log-level",
      "silent",
      "--kv-pool-bytes",
      String(POOL_BYTES),
      "--speculative",
      flags.speculative,
    ],
    {
      stdio: ["ignore", "ignore", "pipe"],
    },
  );
  const url = await new Promise((resolve, reject) => {
    let text = "";
    server.stderr.on("data", (chunk) => {
      text += chunk;
      const found = /(http:\/\/[\d.:]+)/.exec(text);
      if (found !== null) resolve(found[1]);
    });
    server.on("exit", (code) => reject(new Error(`The server ended with ${code}: ${text}`)));
  });
  return { server, url };
}

function residentMb(pid) {
  const [, kilobytes] = /VmRSS:\s+(\d+) kB/.exec(readFileSync(`/proc/${pid}/status`, "utf8"));
  return Math.round(Number(kilobytes) / 1000);
}

/** What is asked of a stream. Where drafts are made, some texts are ones that drafts suit. */
function bodyOf(random) {
  const count = 5 + Math.floor(random() * 200);
  const words = Array.from({ length: count }, () => Math.floor(random() * 1e6));
  const drafted = flags.speculative !== "off" && random() < 0.5;
  return {
    prompt: drafted
      ? `List of numbers: ${words.slice(0, 5).join(", ")}, 1, 2, 3,`
      : words.join(" "),
    max_tokens: drafted ? 1 + Math.floor(random() * 200) : 400,
    n: 1 + Math.floor(random() * 3),
    temperature: drafted ? 0.3 : 1,
    ignore_eos: true,
    stream: true,
  };
}

/** One stream that hangs up after a random number of bytes, or before the first. */
async function hangUp(url, random) {
  const stop = new AbortController();
  const isRead = flags.speculative !== "off" && random() < 0.5;
  const timer = isRead ? undefined : setTimeout(() => stop.abort(), random() * 150);
  try {
    const response = await fetch(`${url}/v1/completions`, {
      method: "POST",
      headers: { "content-type": "application/json" },
      body: JSON.stringify(bodyOf(random)),
      signal: stop.signal,
    });
    for await (const _chunk of response.body);
    return "finished";
  } catch {
    return "aborted";
  } finally {
    clearTimeout(timer);
  }
}

async function hangUpAll(url, count, random) {
  const outcomes = { finished: 0, aborted: 0 };
  const atOnce = flags["at-once"];
  const workers = Array.from({ length: atOnce }, async (_, worker) => {
    for (let stream = worker; stream < count; stream += atOnce)
      outcomes[await hangUp(url, random)] += 1;
  });
  await Promise.all(workers);
  return outcomes;
}

const FIELDS = [
  "model",
  "messages",
  "prompt",
  "max_tokens",
  "temperature",
  "n",
  "stop",
  "stream",
  "logprobs",
  "zz",
];
const VALUES = [
  null,
  -1,
  1e99,
  "",
  "x".repeat(5000),
  [],
  {},
  [[]],
  [{}],
  true,
  { role: 3 },
  "\u0000",
  0.5,
];

/** Bytes that are not a right request: broken JSON, wrong types, wrong framing. */
function malformedRequest(random) {
  const pick = (list) => list[Math.floor(random() * list.length)];
  const path = pick([
    "/v1/chat/completions",
    "/v1/completions",
    "/v1/embeddings",
    "/tokenize",
    "/detokenize",
  ]);
  const body = { prompt: "a", messages: [{ role: "user", content: "a" }], input: "a", tokens: [1] };
  for (let edits = 1 + random() * 3; edits > 0; edits--) body[pick(FIELDS)] = pick(VALUES);
  body.max_tokens = pick([-1, "1", {}, [], 1.5]);
  let text = JSON.stringify(body);
  const kind = Math.floor(random() * 5);
  if (kind === 0) text = text.slice(0, Math.floor(random() * text.length));
  if (kind === 1) text = text.replaceAll('"', pick(["'", "", '""']));
  const length = kind === 2 ? Buffer.byteLength(text) + 100 : Buffer.byteLength(text);
  const type = kind === 3 ? "text/plain" : "application/json";
  const head = kind === 4 ? `P\u0000ST ${path} HTTP/9.9` : `POST ${path} HTTP/1.1`;
  const headers = ["host: a", "connection: close", `content-type: ${type}`];
  return [head, ...headers, `content-length: ${length}`, "", text].join("\r\n");
}

/** The status of the answer; 0: closed without one. */
async function send(url, bytes) {
  const { hostname, port } = new URL(url);
  return new Promise((resolve) => {
    const socket = connect({ host: hostname, port: Number(port) });
    let answer = "";
    socket.on("data", (chunk) => {
      answer += chunk;
    });
    socket.on("error", () => resolve(0));
    socket.on("close", () => resolve(Number(/^HTTP\/1\.1 (\d+)/.exec(answer)?.[1] ?? 0)));
    socket.end(bytes);
  });
}

async function sendMalformed(url, count, random) {
  const statuses = {};
  for (let sent = 0; sent < count; sent++) {
    const status = await send(url, malformedRequest(random));
    statuses[status] = (statuses[status] ?? 0) + 1;
  }
  return statuses;
}

/** The engine's books once nothing runs. */
async function settledStats(url) {
  for (let tries = 0; tries < 100; tries++) {
    const { stats } = await (await fetch(`${url}/server_info`)).json();
    if (stats.running + stats.waiting === 0) return stats;
    await new Promise((resolve) => setTimeout(resolve, 50));
  }
  throw new Error("Requests still run although all clients are gone");
}

const random = createRandom(flags.seed);
const { server, url } = await startServer();
const untilMs = performance.now() + 60_000 * flags.minutes;
try {
  const streams = flags.streams;
  const malformed = flags.malformed;
  const memory = [];
  /** Drafted and accepted tokens since the start, by round. */
  const drafts = [];
  let outcomes = {};
  let statuses = {};
  let stats = {};
  for (let round = 0; round < flags.rounds || performance.now() < untilMs; round++) {
    outcomes = await hangUpAll(url, streams, random);
    statuses = await sendMalformed(url, malformed, random);
    stats = await settledStats(url);
    memory.push(residentMb(server.pid));
    drafts.push([stats.draftedTokens, stats.acceptedTokens]);
  }
  // Early rounds fill heaps, pools and caches up to their bounds.
  const growth = Math.max(...memory.slice(-2)) - Math.max(...memory.slice(0, -2));
  const healthy = (await fetch(`${url}/health`)).status === 200;
  const ok =
    healthy &&
    stats.heldBlocks === 0 &&
    stats.freeBlocks + stats.cachedBlocks === stats.totalBlocks &&
    growth <= GROWTH_MAX_MB &&
    (flags.speculative === "off" || stats.acceptedTokens > 0) &&
    Object.keys(statuses).every((status) => status === "0" || (status >= 400 && status < 500));
  const books = {
    held: stats.heldBlocks,
    free: stats.freeBlocks,
    cached: stats.cachedBlocks,
    total: stats.totalBlocks,
  };
  printResult(
    {
      ok,
      machine: describeMachine(),
      streams: outcomes,
      malformed: statuses,
      books,
      residentMb: memory,
      ...(flags.speculative !== "off" && { drafts }),
    },
    flags.out,
  );
  process.exitCode = ok ? 0 : 1;
} finally {
  server.kill("SIGTERM");
}
