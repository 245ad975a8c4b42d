/**
 * Slow, stalled and half-open clients beside good ones, at a real server of the bundled model.
 *
 *   node bench/slow-clients.mjs [--minutes 3] [--stalled 1024] [--good 64] [--out FILE]
 *
 * First the good clients alone, then as long beside the others, which have stalled by then. The
 * write deadline is longer than that, so that all of them stay; then it must take them all. At the
 * end SIGTERM, beside new ones that stalled. Checked: the good ones keep 90 % of their speed, the
 * server's memory stays flat, places come back by the deadline, SIGTERM ends in its time.
 */
import { spawn } from "node:child_process";
import { once, setMaxListeners } from "node:events";
import { readFileSync, writeFileSync } from "node:fs";
import { connect } from "node:net";
import { setTimeout as sleep } from "node:timers/promises";
import { fileURLToPath } from "node:url";
import { parseArgs } from "node:util";

const { values } = parseArgs({
  options: {
    minutes: { type: "string", default: "3" },
    stalled: { type: "string", default: "1024" },
    good: { type: "string", default: "64" },
    out: { type: "string" },
    help: { type: "boolean", short: "h" },
  },
});
if (values.help) {
  process.stdout.write(readFileSync(fileURLToPath(import.meta.url), "utf8").split("*/")[0] ?? "");
  process.exit(0);
}
const phaseMs = Number(values.minutes) * 60_000;
const stalledCount = Number(values.stalled);
const goodCount = Number(values.good);
if (!(phaseMs > 0 && stalledCount > 0 && goodCount > 0)) throw new Error("wanted positive numbers");

/** Time that the stalled ones have to stall, and slack of the measurement. */
const SETUP_MS_MAX = 240_000;
const SLACK_MS = 5000;
/** Counts from when each one stalled: the first must still be there at the end. */
const WRITE_TIMEOUT_MS = phaseMs + SETUP_MS_MAX + 15_000;
const SHUTDOWN_MS = 3000;
const SPEED_KEPT_MIN = 0.9;
const MEMORY_GROWTH_MAX = 64 * 2 ** 20;
const TOKENS = 64;

const server = spawn(
  process.execPath,
  [
    ...["--import", "./bench/small-send-buffers.mjs", "dist/cli/main.js", "serve"],
    ...["--port", "0", "--log-level", "error", "--connections-max", "8192"],
    ...["--concurrent-requests-max", "4096", "--write-timeout-ms", String(WRITE_TIMEOUT_MS)],
    ...["--shutdown-timeout-ms", String(SHUTDOWN_MS)],
  ],
  { stdio: ["ignore", "ignore", "pipe"] },
);
const exited = once(server, "exit");
const url = await new Promise((resolve, reject) => {
  let said = "";
  server.stderr.on("data", (chunk) => {
    said += chunk;
    const found = /http:\/\/[\d.]+:\d+/.exec(said);
    if (found !== null) resolve(new URL(found[0]));
  });
  server.once("exit", () => reject(new Error(`the server ended: ${said}`)));
});

const info = async () => (await fetch(new URL("/server_info", url))).json();
const rssBytes = () => {
  const status = readFileSync(`/proc/${server.pid}/status`, "utf8");
  return Number(/VmRSS:\s+(\d+)/.exec(status)?.[1]) * 1024;
};

function requestText(place, tokens, more) {
  const content = `Client ${place} asks about hash tables and trees`;
  const body = JSON.stringify({
    ...{ messages: [{ role: "user", content }], temperature: 0, ignore_eos: true },
    ...{ stream: true, max_tokens: tokens, ...more },
  });
  return (
    `POST /v1/chat/completions HTTP/1.1\r\nhost: x\r\ncontent-type: application/json\r\n` +
    `content-length: ${Buffer.byteLength(body)}\r\n\r\n${body}`
  );
}

/** A client that asks again when it was answered, until the signal. Counts answers. */
async function goodClient(place, counts, signal) {
  const socket = connect(Number(url.port), url.hostname);
  socket.setNoDelay(true);
  const text = requestText(place, TOKENS, {});
  let tail = "";
  await new Promise((resolve, reject) => {
    socket.once("error", reject);
    signal.addEventListener("abort", resolve, { once: true });
    socket.on("data", (chunk) => {
      tail += chunk;
      if (tail.includes("data: [DONE]")) {
        counts.requests++;
        tail = "";
        if (!signal.aborted) socket.write(text);
      } else {
        // The mark may be torn in two.
        tail = tail.slice(-16);
      }
    });
    socket.write(text);
  });
  socket.destroy();
}

/** What the good clients and the server's memory do for so long. */
async function measure(ms) {
  const stop = new AbortController();
  setMaxListeners(0, stop.signal);
  const counts = { requests: 0 };
  const clients = Array.from({ length: goodCount }, (_, place) =>
    goodClient(place, counts, stop.signal),
  );
  // Past the first requests, which begin all at once.
  await sleep(Math.min(5000, ms / 4));
  const before = { ...counts, ms: performance.now() };
  const memory = [];
  while (performance.now() - before.ms < ms) {
    memory.push(rssBytes());
    await sleep(1000);
  }
  const seconds = (performance.now() - before.ms) / 1000;
  const requests = counts.requests - before.requests;
  // Every request makes so many; not every token has text of its own, and an event.
  const tokensPerSecond = (requests * TOKENS) / seconds;
  stop.abort();
  await Promise.all(clients);
  const mean = (list) => list.reduce((sum, value) => sum + value, 0) / Math.max(1, list.length);
  const quarter = Math.ceil(memory.length / 4);
  return {
    ...{ seconds, tokensPerSecond, requests },
    rssFirstQuarter: mean(memory.slice(0, quarter)),
    rssLastQuarter: mean(memory.slice(-quarter)),
    rssMax: Math.max(...memory),
  };
}

const SIP = { buffer: Buffer.alloc(1), callback: () => false };

/** Of each kind; the server ends those that have closed their own side when it hears of it. */
const KINDS = ["stalled", "sipping", "stalled", "half-open"];
const expectedOf = (count) =>
  Array.from({ length: count }, (_, place) => KINDS[place % KINDS.length]).filter(
    (kind) => kind !== "half-open",
  ).length;

/** One that asks for much and reads nothing, or a byte a second, or has closed its own side. */
function stalledClient(place) {
  const kind = KINDS[place % KINDS.length];
  const address = { port: Number(url.port), host: url.hostname, allowHalfOpen: true };
  const socket = connect(kind === "sipping" ? { ...address, onread: SIP } : address);
  socket.on("error", () => {});
  const text = requestText(place, 1500, { logprobs: true, top_logprobs: 20 });
  if (kind === "half-open") socket.end(text);
  else socket.write(text);
  const timer = kind === "sipping" ? setInterval(() => socket.resume(), 1000) : null;
  socket.once("close", () => clearInterval(timer));
  return socket;
}

/** Starts so many and waits until all have stalled. */
async function stall(count) {
  const sockets = Array.from({ length: count }, (_, place) => stalledClient(place));
  const startMs = performance.now();
  const expected = expectedOf(count);
  let paused = 0;
  while (performance.now() - startMs < SETUP_MS_MAX) {
    paused = (await info()).stats.paused;
    if (paused >= expected) break;
    await sleep(500);
  }
  return { sockets, paused, expected, setupSeconds: (performance.now() - startMs) / 1000 };
}

/** Seconds until nothing is in work. */
async function untilIdle(msMax) {
  const startMs = performance.now();
  while (performance.now() - startMs < msMax) {
    if ((await info()).requests_in_work === 0) return (performance.now() - startMs) / 1000;
    await sleep(500);
  }
  return Number.POSITIVE_INFINITY;
}

const mebibytes = (bytes) => Math.round(bytes / 2 ** 20);
const say = (text) => process.stdout.write(`${text}\n`);
const tell = (name, { tokensPerSecond, requests, rssFirstQuarter, rssLastQuarter, rssMax }) =>
  say(
    `${name}: ${tokensPerSecond.toFixed(0)} tokens/s, ${requests} requests, memory ` +
      `${mebibytes(rssFirstQuarter)} MiB, at the end ${mebibytes(rssLastQuarter)}, ` +
      `at most ${mebibytes(rssMax)}`,
  );

await measure(Math.min(10_000, phaseMs)); // warm
const alone = await measure(phaseMs);
tell("alone", alone);
const first = await stall(stalledCount);
const stalledAtMs = performance.now();
say(`${first.paused} of ${first.expected} paused after ${first.setupSeconds.toFixed(1)} s`);
const beside = await measure(phaseMs);
tell("beside the stalled", beside);
const statsAtEnd = (await info()).stats;
const leftMs = WRITE_TIMEOUT_MS - (performance.now() - stalledAtMs);
const idleSeconds = await untilIdle(leftMs + SLACK_MS);
const held = (await info()).stats.heldBlocks;
say(`paused at the end ${statsAtEnd.paused}; places back after ${idleSeconds.toFixed(1)} s more`);
for (const socket of first.sockets) socket.destroy();
const second = await stall(Math.min(stalledCount, 64));
const signalledMs = performance.now();
server.kill("SIGTERM");
const [code] = await exited;
const shutdownSeconds = (performance.now() - signalledMs) / 1000;
say(`SIGTERM with ${second.paused} stalled: code ${code} after ${shutdownSeconds.toFixed(1)} s`);
for (const socket of second.sockets) socket.destroy();

const checks = {
  "all stalled": first.paused >= first.expected,
  "still paused at the end": statsAtEnd.paused >= first.expected,
  "speed kept": beside.tokensPerSecond >= SPEED_KEPT_MIN * alone.tokensPerSecond,
  "memory flat": beside.rssLastQuarter - beside.rssFirstQuarter <= MEMORY_GROWTH_MAX,
  "places back by the deadline": Number.isFinite(idleSeconds) && held === 0,
  "SIGTERM in its time": code === 0 && shutdownSeconds <= (SHUTDOWN_MS + SLACK_MS) / 1000,
};
const speedKept = beside.tokensPerSecond / alone.tokensPerSecond;
say(`speed kept: ${(100 * speedKept).toFixed(1)} %`);
for (const [name, right] of Object.entries(checks)) say(`${right ? "ok  " : "FAIL"} ${name}`);
if (values.out !== undefined) {
  const result = { alone, beside, speedKept, idleSeconds, shutdownSeconds, checks };
  writeFileSync(values.out, `${JSON.stringify(result, null, 2)}\n`);
}
process.exit(Object.values(checks).every(Boolean) ? 0 : 1);
