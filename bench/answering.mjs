/**
 * node bench/answering.mjs [--threads 1] [--streams 128] [--output-tokens 128] [--rounds 4]
 *     [--step-ms 0] [--profile FILE]
 *
 * What answering costs, without a model: an engine whose steps cost nothing gives every stream a
 * token each `--step-ms` (0: as soon as the last tokens were posted), and clients in a process of
 * their own read. Prints tokens per second, the time to the first event, and the processor time
 * that a token costs the threads that answer (Linux). `--profile` writes what the main thread did
 * while it was measured: with `--threads 0` it answers.
 */
import { fork } from "node:child_process";
import { readdirSync, readFileSync, writeFileSync } from "node:fs";
import { Session } from "node:inspector/promises";
import { connect } from "node:net";
import { fileURLToPath } from "node:url";
import { isMainThread, parentPort, Worker } from "node:worker_threads";
import { readFlags } from "../tools/flags.mjs";
import { describeMachine } from "./machine.mjs";

const TICKS_PER_SECOND = 100;

if (!isMainThread) runEngine(parentPort);
else if (process.send !== undefined) runClients();
else await measure();

/** The engine's side of ports that clients connect: every request gets tokens until its end. */
function runEngine(control) {
  const clients = [];
  let stepMs = 0;
  const step = () => {
    for (const { port, active } of clients) {
      if (active.size > 0) port.postMessage(stepOf(active));
    }
    if (stepMs === 0) setImmediate(step);
    else setTimeout(step, stepMs);
  };
  control.on("message", (message) => {
    if (message.begin) {
      stepMs = message.stepMs;
      step();
      return;
    }
    const active = new Map();
    clients.push({ port: message.port, active });
    message.port.on("message", (messages) => {
      for (const { type, key, request } of messages) {
        if (type === "add")
          active.set(request.key, { left: request.params.maxTokens, first: true });
        if (type === "abort") active.delete(key);
      }
    });
  });
}

const REST = { logprobs: null, stopReason: null, beam: null };
const PROMPT = { cachedTokens: 0, queueSeconds: 0, promptLogprobs: null, promptLogits: null };

function stepOf(active) {
  const outputs = [];
  const rows = [];
  for (const [key, state] of active) {
    state.left--;
    const token = 300 + (state.left % 50);
    if (state.first || state.left === 0) {
      const finishReason = state.left === 0 ? "length" : null;
      const prompt = state.first ? PROMPT : null;
      outputs.push({ key, index: 0, tokenIds: [token], finishReason, prompt, ...REST });
      state.first = false;
      if (finishReason !== null) active.delete(key);
    } else {
      rows.push(key, 0, token);
    }
  }
  const report = { stepTokens: active.size, sequences: active.size, seconds: 0, planSeconds: 0 };
  const tokenRows = Float64Array.from(rows);
  return { type: "step", outputs, tokenRows, embeddings: [], failures: [], report, stats: {} };
}

/** Keeps its share of streams open, one request after another. */
function runClients() {
  process.on("message", async ({ port, streams, rounds, outputTokens }) => {
    const before = process.cpuUsage();
    const body = JSON.stringify({
      prompt: Array.from({ length: 64 }, (_, place) => 10 + place),
      ...{ max_tokens: outputTokens, temperature: 0, ignore_eos: true, stream: true },
      stream_options: { include_usage: true },
    });
    const head = `POST /v1/completions HTTP/1.1\r\nhost: a\r\ncontent-type: application/json\r\n`;
    const text = `${head}content-length: ${body.length}\r\n\r\n${body}`;
    const results = await Promise.all(
      Array.from({ length: streams }, () => stream(port, text, rounds)),
    );
    const { user, system } = process.cpuUsage(before);
    const firstMs = results.flatMap((result) => result.firstMs);
    const events = results.reduce((sum, result) => sum + result.events, 0);
    const reads = results.reduce((sum, result) => sum + result.reads, 0);
    process.send({ firstMs, events, reads, cpuSeconds: (user + system) / 1e6 });
  });
  process.send({ ready: true });
}

/** Requests of one connection, one after another. */
function stream(port, text, rounds) {
  return new Promise((resolve, reject) => {
    const socket = connect({ port, host: "127.0.0.1", noDelay: true });
    const result = { firstMs: [], events: 0, reads: 0 };
    let left = rounds;
    let sentMs = 0;
    let isFirst = true;
    const next = () => {
      left--;
      isFirst = true;
      sentMs = performance.now();
      socket.write(text);
    };
    socket.on("data", (data) => {
      result.reads++;
      if (isFirst && data.includes("data: {")) {
        isFirst = false;
        result.firstMs.push(performance.now() - sentMs);
      }
      for (let at = data.indexOf("data: {"); at >= 0; at = data.indexOf("data: {", at + 7)) {
        result.events++;
      }
      if (!data.includes("0\r\n\r\n")) return;
      if (left > 0) next();
      else socket.end(() => resolve(result));
    });
    socket.once("error", reject);
    socket.once("connect", next);
  });
}

/** Seconds of processor time of each thread of this process. */
function threadSeconds() {
  const seconds = new Map();
  for (const id of readdirSync("/proc/self/task")) {
    const stat = readFileSync(`/proc/self/task/${id}/stat`, "utf8");
    const fields = stat.slice(stat.lastIndexOf(")") + 2).split(" ");
    seconds.set(id, (Number(fields[11]) + Number(fields[12])) / TICKS_PER_SECOND);
  }
  return seconds;
}

async function measure() {
  const { values: flags } = readFlags({
    options: {
      threads: { type: "number", default: 1 },
      streams: { type: "number", default: 128, min: 1 },
      "output-tokens": { type: "number", default: 128, min: 2 },
      rounds: { type: "number", default: 4, min: 1 },
      "step-ms": { type: "number", default: 0 },
      profile: { type: "string" },
    },
  });
  const { LLM } = await import("../dist/engine/index.js");
  const { startServer } = await import("../dist/server/index.js");
  const llm = await LLM.load(undefined, { speculative: { kind: "off" } });
  const self = fileURLToPath(import.meta.url);
  const engine = new Worker(self);
  const { threads: answeringThreads, streams, rounds } = flags;
  // Without threads the main one has the script for its engine.
  const alone = answeringThreads === 0 ? await LLM.join(fakeConnection(llm, engine)) : null;
  const model =
    alone ??
    new Proxy(llm, {
      get: (target, name) => {
        if (name === "connect") return () => fakeConnection(target, engine);
        const value = Reflect.get(target, name, target);
        return typeof value === "function" ? value.bind(target) : value;
      },
    });
  const options = { port: 0, logLevel: "silent", answeringThreads, concurrentRequestsMax: 4096 };
  const server = await startServer(model, options);
  const port = Number(new URL(server.url).port);
  engine.postMessage({ begin: true, stepMs: flags["step-ms"] });
  const outputTokens = flags["output-tokens"];
  await drive({ port, streams, rounds: 2, outputTokens });
  const before = threadSeconds();
  const begun = performance.now();
  const endProfile = flags.profile === undefined ? null : await beginProfile();
  const result = await drive({ port, streams, rounds, outputTokens });
  if (endProfile !== null) writeFileSync(flags.profile, JSON.stringify(await endProfile()));
  const seconds = (performance.now() - begun) / 1000;
  const used = [...threadSeconds()].map(([id, after]) => after - (before.get(id) ?? 0));
  const tokens = streams * rounds * outputTokens;
  const perToken = (value) => Math.round((value / tokens) * 1e8) / 100;
  const sorted = result.firstMs.sort((a, b) => a - b);
  const at = (share) => Math.round(sorted[Math.floor(share * (sorted.length - 1))] * 10) / 10;
  console.log(
    JSON.stringify({
      ...{ machine: describeMachine(), threads: answeringThreads, streams, outputTokens },
      tokensPerSecond: Math.round(tokens / seconds),
      firstTokenMs: { p50: at(0.5), p99: at(0.99) },
      tokensPerRead: Math.round((tokens / result.reads) * 100) / 100,
      clientUsPerToken: perToken(result.cpuSeconds),
      usPerTokenByThread: used
        .map(perToken)
        .sort((a, b) => b - a)
        .slice(0, 4 + answeringThreads),
    }),
  );
  await server.close();
  await alone?.[Symbol.asyncDispose]();
  await engine.terminate();
  await llm[Symbol.asyncDispose]();
}

/** Gives the way to end it, which brings the profile. */
async function beginProfile() {
  const session = new Session();
  session.connect();
  await session.post("Profiler.enable");
  await session.post("Profiler.start");
  return async () => (await session.post("Profiler.stop")).profile;
}

/** A model's connection whose engine is the script. */
function fakeConnection(llm, engine) {
  const { port1, port2 } = new MessageChannel();
  engine.postMessage({ port: port1 }, [port1]);
  const connection = llm.connect();
  connection.port.close();
  return { ...connection, port: port2 };
}

async function drive(load) {
  const client = fork(fileURLToPath(import.meta.url), { env: { ...process.env } });
  const next = () => new Promise((resolve) => client.once("message", resolve));
  await next();
  client.send(load);
  const result = await next();
  client.disconnect();
  return result;
}
