// node test/peers/routers.mjs [NAME...]: two Perigee workers behind each of other engines' routers,
// from their real packages: chat, stream, 200 requests, one worker drained under load. Prints a
// table; exits 1 where something fails. A router whose package cannot be had here is skipped, with
// the reason. Needs `npm run build`.
import { spawn, spawnSync } from "node:child_process";
import { once } from "node:events";
import { mkdtempSync, openSync, readFileSync, rmSync } from "node:fs";
import { createServer } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { fileURLToPath } from "node:url";

const root = fileURLToPath(new URL("../..", import.meta.url));
const MODEL = "pocket";
const REQUESTS = 200;
const AT_ONCE = 8;
const DRAINED_REQUESTS = 100;
const STARTING_MS = 60_000;
const REQUEST_MS = 60_000;

/** How each router is started, in front of workers at `urls`. */
const ROUTERS = {
  "smg 1.13.0": {
    packages: ["smg==1.13.0"],
    start: (bin, urls, ports) => launch(join(bin, "smg"), ["launch", ...common(urls, ports)]),
  },
  "sglang-router 0.3.2": {
    packages: ["sglang-router==0.3.2"],
    start: (bin, urls, ports) => {
      const words = ["-m", "sglang_router.launch_router", ...common(urls, ports)];
      return launch(join(bin, "python"), words);
    },
  },
  "vllm-router 0.1.17": {
    packages: ["vllm-router==0.1.17"],
    start: (bin, urls, ports) => launch(join(bin, "vllm-router"), common(urls, ports)),
  },
  "dynamo 1.6.1": {
    packages: ["ai-dynamo-runtime==1.6.1", "httpx==0.28.1"],
    start: startDynamo,
  },
};

const running = new Set();
const folder = mkdtempSync(join(tmpdir(), "perigee-routers-"));

function common(urls, { port, metrics }) {
  return [
    ...["--host", "127.0.0.1", "--port", `${port}`, "--prometheus-port", `${metrics}`],
    ...["--policy", "round_robin", "--worker-urls", ...urls],
  ];
}

function startDynamo(bin, urls, { port }, workers) {
  const env = {
    ...{ DYN_DISCOVERY_BACKEND: "file", DYN_FILE_KV: join(folder, "dynamo") },
    DYN_EVENT_PLANE: "zmq",
  };
  for (const [at, url] of urls.entries()) {
    const words = ["--url", url, "--model-path", join(root, "models/pocket")];
    const events = ["--kv-events", `tcp://127.0.0.1:${workers[at].eventsPort}`];
    launch(join(bin, "python"), [join(root, "deploy/dynamo/worker.py"), ...words, ...events], env);
  }
  const frontend = join(root, "test/peers/dynamo_frontend.py");
  return launch(join(bin, "python"), [frontend, `${port}`], env);
}

/** A process whose output goes to a file, which is shown where something fails. */
function launch(program, words, env = {}) {
  const log = join(folder, `${running.size}-${Date.now()}.log`);
  const output = openSync(log, "w");
  const child = spawn(program, words, {
    stdio: ["ignore", output, output],
    env: { ...process.env, ...env },
  });
  const started = { child, log };
  running.add(started);
  child.once("error", () => running.delete(started));
  child.once("exit", () => running.delete(started));
  return started;
}

async function end({ child }, signal = "SIGTERM") {
  if (child.exitCode !== null || child.signalCode !== null || child.pid === undefined) return;
  const ended = once(child, "exit");
  child.kill(signal);
  const late = setTimeout(() => child.kill("SIGKILL"), 10_000);
  await ended;
  clearTimeout(late);
}

async function freePort() {
  const server = createServer();
  await new Promise((resolve) => server.listen(0, "127.0.0.1", resolve));
  const { port } = server.address();
  await new Promise((resolve) => server.close(resolve));
  return port;
}

async function startWorker() {
  const [port, eventsPort] = [await freePort(), await freePort()];
  const words = ["worker", "--port", `${port}`, "--kv-events-zmq", `tcp://127.0.0.1:${eventsPort}`];
  const hashes = ["--hash-algorithm", "sha256_cbor", "--log-level", "warn"];
  const started = launch(process.execPath, [join(root, "dist/cli/main.js"), ...words, ...hashes]);
  const url = `http://127.0.0.1:${port}`;
  await until(`worker at ${url}`, async () => (await fetch(`${url}/health`)).ok);
  return { ...started, url, eventsPort };
}

async function until(what, holds) {
  const start = performance.now();
  while (performance.now() - start < STARTING_MS) {
    if (await holds().catch(() => false)) return;
    await sleep(100);
  }
  throw new Error(`${what} does not come up within ${STARTING_MS / 1000} s`);
}

function ask(url, at, more = {}) {
  return fetch(`${url}/v1/chat/completions`, {
    method: "POST",
    headers: { "content-type": "application/json" },
    signal: AbortSignal.timeout(REQUEST_MS),
    body: JSON.stringify({
      ...{ model: MODEL, max_tokens: 8, temperature: 0 },
      messages: [{ role: "user", content: `What is a cache? ${at}` }],
      ...more,
    }),
  });
}

/** Whether an answer is whole; else why not. */
async function problemOf(url, at, more) {
  try {
    const answer = await ask(url, at, more);
    const body = await answer.json();
    if (answer.status !== 200) return `status ${answer.status}: ${JSON.stringify(body)}`;
    return body.choices?.[0]?.message?.content?.length > 0 ? null : "an empty answer";
  } catch (error) {
    return String(error.cause ?? error);
  }
}

async function streamProblem(url) {
  const answer = await ask(url, 0, { stream: true });
  const text = await answer.text();
  const chunks = text.split("\n").filter((line) => line.startsWith("data: {"));
  const words = chunks.map((line) => JSON.parse(line.slice(6)).choices?.[0]?.delta?.content ?? "");
  if (answer.status !== 200 || !text.includes("data: [DONE]")) return `status ${answer.status}`;
  return words.join("") === "" ? "an empty stream" : null;
}

/** Problems of `count` requests, some at once; `during` is called when a third of them is done. */
async function load(url, count, during = async () => {}) {
  const problems = [];
  let next = 0;
  let called = null;
  const client = async () => {
    while (next < count) {
      const at = next++;
      if (at === Math.floor(count / 3)) called = during();
      const problem = await problemOf(url, at, { max_tokens: 24 });
      if (problem !== null) problems.push(problem);
    }
  };
  await Promise.all(Array.from({ length: AT_ONCE }, client));
  await called;
  return problems;
}

/** One row of the table. */
async function tryRouter(name) {
  const { packages, start } = ROUTERS[name];
  const script = join(root, "test/peers/python-venv.sh");
  const made = spawnSync(script, [name.split(" ")[0], ...packages], { encoding: "utf8" });
  if (made.status !== 0) {
    const reason = made.stderr.trim().split("\n").at(-1);
    return { name, skipped: reason };
  }
  const started = [];
  try {
    const workers = [await startWorker(), await startWorker()];
    started.push(...workers);
    const ports = { port: await freePort(), metrics: await freePort() };
    const urls = workers.map((worker) => worker.url);
    const before = new Set(running);
    start(join(made.stdout.trim(), "bin"), urls, ports, workers);
    started.push(...[...running].filter((one) => !before.has(one)));
    const url = `http://127.0.0.1:${ports.port}`;
    await until(name, async () => (await problemOf(url, 0)) === null);
    // Both workers must be known before one of them leaves.
    await sleep(3000);
    const models = await (await fetch(`${url}/v1/models`)).json();
    const listed = models.data.some(({ id }) => id === MODEL) ? null : JSON.stringify(models);
    const chat = await problemOf(url, 1);
    const stream = await streamProblem(url);
    const many = await load(url, REQUESTS);
    const drained = await load(url, DRAINED_REQUESTS, async () => {
      workers[1].child.kill("SIGTERM");
      await once(workers[1].child, "exit");
    });
    return { name, listed, chat, stream, many, drained };
  } catch (error) {
    const logs = started.map(({ log }) => readFileSync(log, "utf8").slice(-1500)).join("\n");
    return { name, failed: `${error.message}\n${logs}` };
  } finally {
    for (const one of started.toReversed()) await end(one);
  }
}

const shown = (problem) => (problem === null ? "yes" : "NO");
const answered = (problems, count) => `${count - problems.length} of ${count}`;

const names = Object.keys(ROUTERS).filter(
  (name) => process.argv.length < 3 || process.argv.slice(2).some((word) => name.startsWith(word)),
);
const lines = [];
let failures = 0;
try {
  console.log(
    "| router | model listed | chat | stream | requests answered | while one worker drains |",
  );
  console.log("|---|---|---|---|---|---|");
  for (const name of names) {
    const row = await tryRouter(name);
    if (row.skipped !== undefined) {
      console.log(`| ${name} | skipped: ${row.skipped} | | | | |`);
      continue;
    }
    if (row.failed !== undefined) {
      failures++;
      console.log(`| ${name} | failed | | | | |`);
      lines.push(`${name}: ${row.failed}`);
      continue;
    }
    const { listed, chat, stream, many, drained } = row;
    const cells = [shown(listed), shown(chat), shown(stream)];
    const counts = [answered(many, REQUESTS), answered(drained, DRAINED_REQUESTS)];
    console.log(`| ${[name, ...cells, ...counts].join(" | ")} |`);
    const problems = [listed, chat, stream, ...many, ...drained].filter((text) => text !== null);
    if (problems.length > 0) failures++;
    for (const problem of new Set(problems)) lines.push(`${name}: ${problem.slice(0, 300)}`);
  }
  for (const line of lines) console.error(line);
} finally {
  for (const one of [...running]) await end(one, "SIGKILL");
  rmSync(folder, { recursive: true, force: true });
}
process.exitCode = failures > 0 ? 1 : 0;
