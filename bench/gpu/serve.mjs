// node bench/gpu/serve.mjs [--device cuda] [--streams 512] [--rounds 3] [--clients 4]
//     [--prompt-tokens 64] [--output-tokens 128] [--model FOLDER] [--json FILE] [-- serve flags]
//
// `perigee serve` under load: so many streams at once, each taken up again when it ends, from
// client processes of their own (the openai package; fetch where it is not installed), so that no
// client is what limits. Prints tokens per second, times to the first token and between tokens, and
// what share of a core the server and the clients used. Then the same load from `perigee bench
// serve`, which is one process.
//
// A first round that is not counted comes before: kernels are compiled and graphs captured in it.
// Each client process has had an answer before it is counted, too.
import { fork, spawn } from "node:child_process";
import { existsSync, readFileSync } from "node:fs";
import { fileURLToPath } from "node:url";
import { readFlags } from "../../tools/flags.mjs";
import { describeMachine } from "../machine.mjs";
import { giveUp, requireBuild, writeJson } from "./gpu-bench.mjs";

await requireBuild();
const { summarize } = await import("../../dist/cli/bench/statistics.js");

const { values: flags, positionals: serveFlags } = readFlags({
  allowPositionals: true,
  options: {
    device: { type: "string", default: "cuda" },
    streams: { type: "number", default: 512, min: 1 },
    rounds: { type: "number", default: 3, min: 1 },
    clients: { type: "number", default: 4, min: 1 },
    "prompt-tokens": { type: "number", default: 64, min: 1 },
    "output-tokens": { type: "number", default: 128, min: 1 },
    model: { type: "string" },
    json: { type: "string" },
  },
});
const root = fileURLToPath(new URL("../..", import.meta.url));
const main = `${root}dist/cli/main.js`;
const streams = flags.streams;
/** Ticks of processor time in /proc. */
const ticksPerSecond = 100;

/** Starts the server; gives its address and process. */
async function startServer() {
  const model = flags.model ?? `${root}models/pocket`;
  if (!existsSync(model)) giveUp(`Cannot serve ${model}: no such model`);
  const options = ["--device", flags.device, "--port", "0", "--log-level", "silent"];
  const room = ["--running-sequences-max", String(streams), "--step-tokens-max", "4096"];
  const server = spawn(
    process.execPath,
    [main, "serve", model, ...options, ...room, ...serveFlags],
    { stdio: ["ignore", "ignore", "pipe"] },
  );
  let text = "";
  const url = await new Promise((resolve) => {
    server.stderr.on("data", (chunk) => {
      text += chunk;
      const match = /serving .* at (http:[^\s"]+)/.exec(text);
      if (match !== null) resolve(match[1]);
    });
    server.on("exit", () => giveUp(text.trim().split("\n").at(-1) ?? "the server ended"));
  });
  server.removeAllListeners("exit");
  return { server, url };
}

/** Seconds of processor time of a process with its threads, or of `PID/task/ID`; null: unknown. */
function cpuSeconds(pid) {
  try {
    const stat = readFileSync(`/proc/${pid}/stat`, "utf8");
    // The name, in brackets, may hold spaces; user and system time are the 14th and 15th field.
    const fields = stat.slice(stat.lastIndexOf(")") + 2).split(" ");
    return (Number(fields[11]) + Number(fields[12])) / ticksPerSecond;
  } catch {
    return null;
  }
}

/** The model's name and its vocabulary, as the server tells them. */
async function describeServer(url) {
  const read = async (path) => (await fetch(`${url}${path}`)).json();
  const [list, info] = [await read("/v1/models"), await read("/server_info")];
  return { model: list.data[0].id, vocabularySize: info.model_details.vocabularySize };
}

/** One client process with its share of the streams, ready to begin. */
async function startClient(share) {
  const file = fileURLToPath(new URL("./stream-client.mjs", import.meta.url));
  const client = fork(file, [JSON.stringify(share)]);
  await new Promise((resolve, reject) => {
    client.once("message", resolve);
    client.once("exit", () => reject(new Error("a client ended before it began")));
  });
  client.removeAllListeners("exit");
  return client;
}

/** All streams at once from several processes; what they saw. */
async function drive(server, url, model, rounds) {
  const count = Math.min(flags.clients, streams);
  const sizes = { promptTokens: flags["prompt-tokens"] };
  const outputTokens = flags["output-tokens"];
  const clients = await Promise.all(
    Array.from({ length: count }, (_, at) => {
      const share = Math.floor(((at + 1) * streams) / count) - Math.floor((at * streams) / count);
      return startClient({ url, ...model, ...sizes, outputTokens, rounds, streams: share });
    }),
  );
  const answering = `${server.pid}/task/${server.pid}`;
  const before = cpuSeconds(server.pid);
  const mainBefore = cpuSeconds(answering);
  const begun = performance.now();
  const results = await Promise.all(
    clients.map(
      (client) =>
        new Promise((resolve, reject) => {
          client.once("message", resolve);
          client.once("error", reject);
          // Not at its exit, which may come before the last message was read.
          client.once("disconnect", () => reject(new Error("a client ended without a result")));
          client.send("begin");
        }),
    ),
  );
  const seconds = (performance.now() - begun) / 1000;
  const used = before === null ? null : cpuSeconds(server.pid) - before;
  const mainUsed = before === null ? null : cpuSeconds(answering) - mainBefore;
  return { ...summary(results, seconds, used), serverThreadCores: share(mainUsed, seconds) };
}

/** Cores that were busy all the time, on average; null where none can tell. */
function share(usedSeconds, seconds) {
  return usedSeconds === null ? null : usedSeconds / seconds;
}

function summary(results, seconds, serverCpuSeconds) {
  const timings = results.flatMap((result) => result.timings);
  const tokens = timings.reduce((sum, timing) => sum + timing.tokens, 0);
  return {
    client: `${results[0].by}, ${results.length} processes`,
    streams,
    completed: timings.length,
    failed: results.reduce((sum, { failed }) => sum + failed, 0),
    seconds,
    tokensPerSecond: tokens / seconds,
    timeToFirstTokenMs: summarize(timings.map(({ firstMs }) => firstMs)),
    timeBetweenTokensMs: summarize(timings.flatMap(({ gapsMs }) => gapsMs)),
    serverCores: share(serverCpuSeconds, seconds),
    clientCoresEach: Math.max(...results.map(({ cpuSeconds: used }) => share(used, seconds))),
  };
}

/** The product's own client with the same load. */
async function benchServe(server, url) {
  const rounds = flags.rounds;
  const sizes = [
    "--input-length",
    String(flags["prompt-tokens"]),
    "--output-length",
    String(flags["output-tokens"]),
  ];
  const load = ["--prompts", String(rounds * streams), "--concurrency", String(streams)];
  const before = cpuSeconds(server.pid);
  const begun = performance.now();
  const bench = spawn(process.execPath, [main, "bench", "serve", "--url", url, ...sizes, ...load], {
    stdio: ["ignore", "pipe", "inherit"],
  });
  let text = "";
  for await (const chunk of bench.stdout) text += chunk;
  const seconds = (performance.now() - begun) / 1000;
  const used = cpuSeconds(server.pid);
  const result = JSON.parse(text);
  return { ...result, serverCores: used === null ? null : (used - before) / seconds };
}

function print({ client, streams, completed, failed, seconds, ...result }) {
  const { tokensPerSecond, timeToFirstTokenMs: first, timeBetweenTokensMs: between } = result;
  const cores = (value) => (value === null ? "unknown" : `${(100 * value).toFixed(0)} % of a core`);
  console.log(
    [
      `${streams} streams by ${client}: ${completed} done, ${failed} failed, ` +
        `${seconds.toFixed(1)} s`,
      `  ${tokensPerSecond.toFixed(0)} tok/s`,
      `  first token p50 ${first.p50} ms, p99 ${first.p99} ms`,
      `  between tokens p50 ${between.p50} ms, p99 ${between.p99} ms`,
      `  server ${cores(result.serverCores)}, of that the thread that answers ` +
        `${cores(result.serverThreadCores)}, busiest client ${cores(result.clientCoresEach)}`,
    ].join("\n"),
  );
}

const { server, url } = await startServer();
try {
  const model = await describeServer(url);
  await drive(server, url, model, 1);
  const clients = await drive(server, url, model, flags.rounds);
  print(clients);
  const own = await benchServe(server, url);
  const { outputTokensPerSecond, timeToFirstTokenMs: first, interTokenMs: between } = own;
  console.log(
    `perigee bench serve, one process: ${outputTokensPerSecond.toFixed(0)} tok/s, first token ` +
      `p50 ${first.p50} ms, p99 ${first.p99} ms, between p50 ${between.p50} ms, ` +
      `p99 ${between.p99} ms`,
  );
  const machine = { ...describeMachine(), device: flags.device };
  writeJson(flags.json, { machine, clients, benchServe: own });
} finally {
  server.kill("SIGTERM");
}
