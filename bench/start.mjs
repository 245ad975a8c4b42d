/**
 * node bench/start.mjs [--runs 5] [--idle-seconds 10] [--device cpu]
 * node bench/start.mjs --device cuda --model bench/gpu/llama-3.1-8b/config.json --random-weights
 *   [--out FILE]
 *
 * Time from the command to the first token, of the bundled model by default, and what an idle
 * server costs (--idle-seconds 0: not asked). On a GPU also with no kernels compiled before, and
 * what each part of loading took. Prints JSON.
 */
import { spawn, spawnSync } from "node:child_process";
import { mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { fileURLToPath } from "node:url";
import { readFlags } from "../tools/flags.mjs";
import { describeMachine, median, printResult } from "./machine.mjs";

const main = fileURLToPath(new URL("../dist/cli/main.js", import.meta.url));
const MS_PER_TICK = 10;
const SETTLE_MS = 20_000;
const { values: flags } = readFlags({
  options: {
    runs: { type: "number", default: 5, min: 1 },
    "idle-seconds": { type: "number", default: 10 },
    device: { type: "string", default: "cpu" },
    model: { type: "string" },
    "random-weights": { type: "boolean", default: false },
    out: { type: "string" },
  },
});

const model = [
  ...(flags.model === undefined ? [] : [flags.model]),
  ...["--device", flags.device],
  ...(flags["random-weights"] ? ["--random-weights"] : []),
];

/** `perigee generate` for one token: seconds, the end included, and those of its parts. */
function firstToken(env = {}) {
  const begun = performance.now();
  const wish = ["--prompt-ids", "1,2,3", "--max-tokens", "1", "--temperature", "0", "--verbose"];
  const command = [main, "generate", ...model, ...wish];
  const options = { encoding: "utf8", env: { ...process.env, ...env } };
  const { status, stderr } = spawnSync(process.execPath, command, options);
  // The first line is what a user sees; the rest is where it came from.
  if (status !== 0) throw new Error(/^perigee: .*$/m.exec(stderr)?.[0] ?? stderr);
  const told = /loading: (.*)/.exec(stderr)?.[1] ?? "";
  return { seconds: (performance.now() - begun) / 1000, loading: told.split("; ") };
}

/** The same with an empty folder of compiled kernels; the compiler keeps some of its own, too. */
function firstTokenUncached() {
  const folder = mkdtempSync(join(tmpdir(), "perigee-start-"));
  try {
    return firstToken({ XDG_CACHE_HOME: folder, CUDA_CACHE_PATH: join(folder, "cuda") });
  } finally {
    rmSync(folder, { recursive: true });
  }
}

/** Processor time of a process and its threads, in ms. */
function processorMs(pid) {
  const fields = readFileSync(`/proc/${pid}/stat`, "utf8").split(") ")[1].split(" ");
  return (Number(fields[11]) + Number(fields[12])) * MS_PER_TICK;
}

async function idleShare(seconds) {
  const command = [main, "serve", ...model, "--port", "0", "--log-level", "silent"];
  const server = spawn(process.execPath, command, { stdio: ["ignore", "ignore", "pipe"] });
  try {
    const begun = performance.now();
    const url = await new Promise((resolve) => {
      server.stderr.on("data", (text) => {
        const found = /(http:\/\/[\d.:]+)/.exec(text);
        if (found !== null) resolve(found[1]);
      });
    });
    const readySeconds = (performance.now() - begun) / 1000;
    // One request first: an engine that has worked must fall asleep again, once the compiler and
    // the collector of the JavaScript engine have.
    await fetch(`${url}/v1/completions`, {
      method: "POST",
      headers: { "content-type": "application/json" },
      body: JSON.stringify({ prompt: [1, 2, 3], max_tokens: 8 }),
    });
    await sleep(SETTLE_MS);
    const before = processorMs(server.pid);
    await sleep(seconds * 1000);
    const share = (processorMs(server.pid) - before) / (seconds * 1000);
    return { readySeconds, coresUsedIdle: share };
  } finally {
    server.kill("SIGTERM");
  }
}

/** All that was asked for. */
async function measure() {
  const uncached = flags.device === "cuda" ? { uncachedKernels: firstTokenUncached() } : {};
  const runs = Array.from({ length: flags.runs }, () => firstToken());
  const seconds = runs.map((run) => run.seconds);
  const idleSeconds = flags["idle-seconds"];
  const idle = idleSeconds > 0 ? await idleShare(idleSeconds) : {};
  return {
    machine: describeMachine(),
    command: model.join(" "),
    ...uncached,
    firstTokenSeconds: { median: median(seconds), all: seconds },
    loading: runs.at(-1)?.loading,
    ...idle,
  };
}

try {
  printResult(await measure(), flags.out);
} catch (error) {
  console.error(error.message);
  process.exitCode = 1;
}
