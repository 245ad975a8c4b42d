// Processes that a benchmark starts: output to files, processor time and memory of a
// process with all its children (Linux), an orderly end.
import { spawn } from "node:child_process";
import { once } from "node:events";
import { closeSync, mkdtempSync, openSync, readdirSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";

const MS_PER_TICK = 10;
const ENDING_MS = 10_000;
const running = new Set();
let started = 0;

/** For logs and what processes keep; gone when this process ends. */
export const folder = mkdtempSync(join(tmpdir(), "perigee-bench-"));
process.once("exit", () => {
  for (const { child } of running) child.kill("SIGKILL");
  rmSync(folder, { recursive: true, force: true });
});

for (const signal of ["SIGINT", "SIGTERM"]) process.once(signal, () => process.exit(1));

/** Starts a program whose output goes to a file. */
export function launch(program, words, env = {}) {
  const log = join(folder, `${started++}.log`);
  const output = openSync(log, "w");
  const child = spawn(program, words, {
    stdio: ["ignore", output, output],
    env: { ...process.env, ...env },
  });
  closeSync(output);
  const one = { child, log, pid: child.pid };
  running.add(one);
  child.once("error", () => running.delete(one));
  child.once("exit", () => running.delete(one));
  return one;
}

/** What a process has said so far. */
export const saidBy = ({ log }) => readFileSync(log, "utf8");

export async function end({ child }) {
  if (child.exitCode !== null || child.signalCode !== null || child.pid === undefined) return;
  const ended = once(child, "exit");
  child.kill("SIGTERM");
  const late = setTimeout(() => child.kill("SIGKILL"), ENDING_MS);
  await ended;
  clearTimeout(late);
}

/** Waits until `holds` gives something true, and gives it. */
export async function until(what, holds, limitMs = 60_000) {
  const startMs = performance.now();
  while (performance.now() - startMs < limitMs) {
    const found = await Promise.resolve()
      .then(holds)
      .catch(() => false);
    if (found) return found;
    await sleep(100);
  }
  throw new Error(`${what} does not come up within ${limitMs / 1000} s`);
}

/** Processor time so far and resident memory of processes and all their children. */
export function usageOf(processes) {
  const all = readProcesses();
  const counted = new Set(processes.map(({ pid }) => pid));
  // Children have higher ids than their parents unless ids wrapped around: repeat until stable.
  for (let size = -1; size !== counted.size; ) {
    size = counted.size;
    for (const { pid, parent } of all) if (counted.has(parent)) counted.add(pid);
  }
  const own = all.filter(({ pid }) => counted.has(pid));
  return {
    cpuMs: own.reduce((sum, { ticks }) => sum + ticks * MS_PER_TICK, 0),
    rssMiB: own.reduce((sum, { rssKiB }) => sum + rssKiB, 0) / 1024,
  };
}

function readProcesses() {
  return readdirSync("/proc")
    .filter((name) => /^\d+$/.test(name))
    .flatMap((name) => {
      try {
        const fields = readFileSync(`/proc/${name}/stat`, "utf8").split(") ").at(-1).split(" ");
        const status = readFileSync(`/proc/${name}/status`, "utf8");
        const rssKiB = Number(/VmRSS:\s+(\d+)/.exec(status)?.[1] ?? 0);
        const ticks = Number(fields[11]) + Number(fields[12]);
        return [{ pid: Number(name), parent: Number(fields[1]), ticks, rssKiB }];
      } catch {
        return []; // It has just ended.
      }
    });
}
