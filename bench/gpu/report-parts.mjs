/**
 * What report.mjs runs, by worth: each a command with its limit in seconds. `json`: the words that
 * name the file of its result, or "stdout" for one that prints it; `needs`: what it is skipped
 * without; `tail`: how many of its last lines are kept, if not the usual number.
 */
import { existsSync } from "node:fs";
import { delimiter, join } from "node:path";
import { fileURLToPath } from "node:url";

/** Where commands run; paths in them are from here. */
export const root = fileURLToPath(new URL("../../", import.meta.url));

const toFile = (file) => ["--json", file];
const node = (script, ...words) => [process.execPath, script, ...words];

/** What was compiled of test/contracts. */
const contracts = {
  found: () => existsSync(join(root, "native/build/gpu-contracts/test/contracts")),
  remedy: "run node bench/gpu/contracts.mjs --build first",
};

const sanitizer = {
  found: () => sanitizerPath() !== null,
  remedy: "compute-sanitizer of the CUDA toolkit wanted in PATH",
};

/** compute-sanitizer of PATH, else of the toolkit; null where there is none. */
function sanitizerPath() {
  const { PATH = "", CUDA_HOME = "/usr/local/cuda" } = process.env;
  const folders = [...PATH.split(delimiter).filter(Boolean), join(CUDA_HOME, "bin")];
  const paths = folders.map((folder) => join(folder, "compute-sanitizer"));
  return paths.find((path) => existsSync(path)) ?? null;
}

/** Few cases in one process; --verbose names the one that hangs. */
function sanitized(tool) {
  const smoke = node("bench/gpu/smoke.mjs", "--small", "--jobs", "1", "--limit", "130");
  const options = ["--tool", tool, "--error-exitcode", "9"];
  return [sanitizerPath() ?? "compute-sanitizer", ...options, ...smoke, "--verbose"];
}

const eightB = "bench/gpu/llama-3.1-8b/config.json";
const startOf = ["--device", "cuda", "--model", eightB, "--random-weights"];

/** By name, in the order in which they run. */
export const parts = {
  smoke: {
    limit: 60,
    command: node("bench/gpu/smoke.mjs", "--limit", "55", "--verbose"),
    json: toFile,
  },
  table: { limit: 130, command: node("bench/gpu/table.mjs"), json: toFile },
  kernels: { limit: 60, command: node("bench/gpu/kernels.mjs"), json: toFile, tail: 400 },
  timeline: { limit: 45, command: node("bench/gpu/timeline.mjs"), json: toFile },
  engine: { limit: 120, command: node("bench/gpu/engine.mjs"), needs: contracts },
  models: { limit: 60, command: node("bench/gpu/models.mjs"), needs: contracts },
  contracts: { limit: 60, command: node("bench/gpu/contracts.mjs"), needs: contracts },
  serve: { limit: 70, command: node("bench/gpu/serve.mjs"), json: toFile },
  start: {
    limit: 60,
    command: node("bench/start.mjs", ...startOf, "--runs", "3", "--idle-seconds", "0"),
    json: "stdout",
  },
  faults: { limit: 100, command: node("bench/gpu/faults.mjs"), tail: 400 },
  memcheck: { limit: 150, command: sanitized("memcheck"), needs: sanitizer, tail: 400 },
  racecheck: { limit: 150, command: sanitized("racecheck"), needs: sanitizer, tail: 400 },
  transformers: {
    limit: 200,
    command: ["python3", "bench/gpu/peer_transformers.py", "--seconds", "120"],
    json: toFile,
  },
  copies: { limit: 40, command: node("bench/gpu/copies.mjs"), json: toFile },
  loading: { limit: 40, command: node("bench/gpu/loading.mjs"), json: "stdout" },
};
