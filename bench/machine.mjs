/** What a result was measured on, and how busy the machine was with other things. */
import { readdirSync, readFileSync, writeFileSync } from "node:fs";
import { cpus, totalmem } from "node:os";
import { relative } from "node:path";
import { fileURLToPath } from "node:url";

const root = fileURLToPath(new URL("..", import.meta.url));

/** The command that repeats this run, from the root of the repository. */
export function commandLine() {
  const [, script = "", ...words] = process.argv;
  return ["node", relative(root, script), ...words].join(" ");
}

/** Prints a result as JSON, and writes it to a file too, where one is named (`--out`). */
export function printResult(result, out) {
  const text = `${JSON.stringify(result, null, 2)}\n`;
  process.stdout.write(text);
  if (out !== undefined) writeFileSync(out, text);
}

export function describeMachine() {
  const [first] = cpus();
  return {
    cpu: first?.model.trim() ?? "unknown",
    cores: cpus().length,
    memoryGiB: Math.round(totalmem() / 2 ** 30),
    platform: `${process.platform}-${process.arch}`,
    node: process.version,
    date: new Date().toISOString().slice(0, 10),
  };
}

/** The middle value. */
export function median(values) {
  const sorted = [...values].sort((a, b) => a - b);
  return sorted[sorted.length >> 1];
}

/** Peak resident memory of this process in MB, where the system tells. */
export function peakResidentMb() {
  try {
    const match = /VmHWM:\s+(\d+) kB/.exec(readFileSync("/proc/self/status", "utf8"));
    return match === null ? null : Math.round(Number(match[1]) / 1000);
  } catch {
    return null;
  }
}

/** CPU time of everyone, in ticks of 10 ms; null where the system does not tell. */
export function busyTicks() {
  try {
    const [line] = readFileSync("/proc/stat", "utf8").split("\n");
    const [user, nice, system] = line.trim().split(/\s+/).slice(1).map(Number);
    return user + nice + system;
  } catch {
    return null;
  }
}

/** CPU of each thread of a process by its number, in milliseconds; where the system tells. */
export function threadCpuMs(process = "self") {
  const times = new Map();
  for (const thread of readdirSync(`/proc/${process}/task`)) {
    const [ns] = readFileSync(`/proc/${process}/task/${thread}/schedstat`, "utf8").split(" ");
    times.set(thread, Number(ns) / 1e6);
  }
  return times;
}
