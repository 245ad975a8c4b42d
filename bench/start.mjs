/**
 * node bench/start.mjs [--runs 5] [--idle-seconds 10]
 *
 * Time from the command to the first token of the bundled model, and what an idle server costs.
 * Prints JSON.
 */
import { spawn, spawnSync } from "node:child_process";
import { readFileSync } from "node:fs";
import { setTimeout as sleep } from "node:timers/promises";
import { fileURLToPath } from "node:url";
import { parseArgs } from "node:util";
import { describeMachine, median } from "./machine.mjs";

const main = fileURLToPath(new URL("../dist/cli/main.js", import.meta.url));
const MS_PER_TICK = 10;
const SETTLE_MS = 20_000;
const { values: flags } = parseArgs({
  options: {
    runs: { type: "string", default: "5" },
    "idle-seconds": { type: "string", default: "10" },
  },
});

/** Seconds of `perigee generate` for one token, the process's end included. */
function firstToken() {
  const begun = performance.now();
  const command = [main, "generate", "-p", "Hello", "--max-tokens", "1", "--temperature", "0"];
  const { status, stderr } = spawnSync(process.execPath, command, { encoding: "utf8" });
  if (status !== 0) throw new Error(stderr);
  return (performance.now() - begun) / 1000;
}

/** Processor time of a process and its threads, in ms. */
function processorMs(pid) {
  const fields = readFileSync(`/proc/${pid}/stat`, "utf8").split(") ")[1].split(" ");
  return (Number(fields[11]) + Number(fields[12])) * MS_PER_TICK;
}

async function idleShare(seconds) {
  const server = spawn(process.execPath, [main, "serve", "--port", "0", "--log-level", "silent"], {
    stdio: ["ignore", "ignore", "pipe"],
  });
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
      body: JSON.stringify({ prompt: "Hello", max_tokens: 8 }),
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

const seconds = Array.from({ length: Number(flags.runs) }, firstToken);
const idle = await idleShare(Number(flags["idle-seconds"]));
console.log(
  JSON.stringify(
    {
      machine: describeMachine(),
      firstTokenSeconds: { median: median(seconds), all: seconds },
      ...idle,
    },
    null,
    2,
  ),
);
