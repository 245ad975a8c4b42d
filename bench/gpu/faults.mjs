// node bench/gpu/faults.mjs [--only trap,none] [--model models/pocket]
//
// Provokes what can go wrong with a GPU, and prints what a user saw of it, line by line, with exit
// codes. Needs the build; `old` and `driver` need no GPU.
import { spawn } from "node:child_process";
import { once } from "node:events";
import { createInterface } from "node:readline";
import { fileURLToPath } from "node:url";
import { cudaFromEnvironment } from "../../dist/cli/cuda-environment.js";
import { CudaDevice } from "../../dist/devices/cuda/cuda-device.js";
import { CudaDriver } from "../../dist/devices/cuda/driver/driver.js";
import { openSystemLibrary } from "../../dist/devices/cuda/driver/native-library.js";
import { readFlags, refuse } from "../../tools/flags.mjs";
import { openOrGiveUp } from "./gpu-bench.mjs";

const { values: flags } = readFlags({
  options: {
    only: { type: "string" },
    model: { type: "string", default: "models/pocket" },
  },
});
const place = (path) => fileURLToPath(new URL(path, import.meta.url));
const perigee = place("../../dist/cli/main.js");
const eightB = place("llama-3.1-8b/config.json");
const preload = ["--import", place("faults/trap-on-signal.mjs")];
const GIB = 2 ** 30;
/** Longer than any of this takes. */
const patienceMs = 120_000;

const say = (who, line) => console.log(`  ${who.padEnd(8)} ${line}`);

/** A process whose lines are printed as they come. `seen` settles with the first that matches. */
function start(words, { env = {}, who = "stderr" } = {}) {
  const child = spawn(process.execPath, words, {
    env: { ...process.env, ...env },
    stdio: ["ignore", "pipe", "pipe"],
  });
  const timer = setTimeout(() => child.kill("SIGKILL"), patienceMs);
  const watchers = [];
  for (const [name, stream] of [
    ["stdout", child.stdout],
    [who, child.stderr],
  ]) {
    createInterface({ input: stream }).on("line", (line) => {
      say(name, line.length > 400 ? `${line.slice(0, 400)} …` : line);
      for (const watch of watchers) watch(line);
    });
  }
  const ended = once(child, "close").then(([code, signal]) => {
    clearTimeout(timer);
    say("exit", String(code ?? signal));
  });
  const seen = (pattern) =>
    Promise.race([
      new Promise((resolve) => {
        watchers.push((line) => {
          const found = pattern.exec(line);
          if (found !== null) resolve(found);
        });
      }),
      ended.then(() => null),
    ]);
  return { child, ended, seen };
}

async function run(...words) {
  await start([perigee, ...words]).ended;
}

const onGpu = ["--device", "cuda"];
const needNoGpu = new Set(["old", "driver"]);
const short = ["--prompt-ids", "1,2,3", "--max-tokens", "4", "--temperature", "0"];

/** What a client of a server sees of a request. */
async function request(url, stream) {
  const body = JSON.stringify({
    ...{ model: "pocket", prompt: "Hello", max_tokens: 1500, temperature: 1 },
    ...{ ignore_eos: true, stream },
  });
  const headers = { "content-type": "application/json" };
  const who = stream ? "stream" : "request";
  try {
    const response = await fetch(`${url}/v1/completions`, { method: "POST", headers, body });
    const text = await response.text();
    const lines = text.split("\n").filter((line) => line !== "");
    const last = lines.slice(-2).map((line) => line.slice(0, 300));
    say(who, `status ${response.status}, ${lines.length} lines, the last ones:`);
    for (const line of last) say(who, line);
  } catch (error) {
    say(who, `no answer: ${error.message} ${error.cause?.message ?? ""}`);
  }
}

async function trapServer() {
  const words = ["serve", flags.model, ...onGpu, "--port", "0", "--log-level", "silent"];
  const server = start([...preload, perigee, ...words]);
  const url = await server.seen(/(http:\/\/[\d.:]+)/);
  if (url === null) return;
  const requests = [request(url[1], true), request(url[1], false)];
  await new Promise((resolve) => setTimeout(resolve, 300));
  say("harm", "a kernel traps");
  server.child.kill("SIGUSR2");
  await Promise.all(requests);
  await server.ended;
}

async function trapGenerate() {
  const words = ["generate", flags.model, ...onGpu, "--verbose", "-p", "Hello"];
  const many = ["--max-tokens", "1900", "--ignore-eos", "--n", "64", "--json"];
  const process = start([...preload, perigee, ...words, ...many]);
  if ((await process.seen(/loading:/)) === null) return;
  await new Promise((resolve) => setTimeout(resolve, 200));
  say("harm", "a kernel traps");
  process.child.kill("SIGUSR2");
  await process.ended;
}

/** Another process holds the GPU's memory but for some bytes. */
async function withLittle(bytesLeft, use) {
  const other = start([place("faults/hold.mjs"), String(bytesLeft)], { who: "other" });
  if ((await other.seen(/bytes are left/)) === null) return;
  await use();
  other.child.kill("SIGKILL");
  await other.ended;
}

/** Opens the device in this process, with other libraries than the system's. */
async function openWith(openLibrary) {
  try {
    const settings = cudaFromEnvironment();
    const device = await CudaDevice.open({
      settings,
      openLibrary,
      warn: (message) => say("stderr", `warning: ${message}`),
    });
    say("opened", device.description);
    device.dispose();
  } catch (error) {
    say("stderr", `perigee: ${error.message} (${error.code ?? error.stack})`);
  }
}

const without = (part) => (path) => (path.includes(part) ? null : openSystemLibrary(path));

/** A driver of CUDA 11.4, as far as it is asked. */
function oldDriver(path) {
  if (!path.includes("libcuda")) return openSystemLibrary(path);
  return {
    path,
    bind: (signature) => (out) => {
      if (signature.includes("cuDriverGetVersion")) out[0] = 11_040;
      return 0;
    },
  };
}

const faults = {
  trap: ["a kernel traps while a server works", trapServer],
  "trap-generate": ["a kernel traps while a batch is computed", trapGenerate],
  none: [
    "no GPU is visible",
    async () => {
      const hidden = { env: { CUDA_VISIBLE_DEVICES: "" } };
      await start([perigee, "generate", flags.model, ...onGpu, ...short], hidden).ended;
      say("", "the same with --device auto:");
      await start([perigee, "generate", flags.model, ...short], hidden).ended;
    },
  ],
  driver: ["there is no driver", () => openWith(without("libcuda."))],
  old: ["the driver is old", () => openWith(oldDriver)],
  nvrtc: ["NVRTC is missing", () => openWith(without("libnvrtc"))],
  cublas: ["cuBLASLt is missing", () => openWith(without("libcublasLt"))],
  weights: [
    "another process leaves 10 GiB to a model of 15 GiB",
    () =>
      withLittle(10 * GIB, () => run("generate", eightB, "--random-weights", ...onGpu, ...short)),
  ],
  pool: [
    "another process leaves 3 GiB, which is beyond the share that may be used",
    () => withLittle(3 * GIB, () => run("generate", flags.model, ...onGpu, ...short)),
  ],
  nothing: [
    "another process leaves next to nothing",
    () => withLittle(64 << 20, () => run("generate", flags.model, ...onGpu, ...short)),
  ],
  steps: [
    "steps larger than the GPU",
    () =>
      run(
        ...["generate", eightB, "--random-weights", ...onGpu, ...short],
        ...["--step-tokens-max", "1000000"],
      ),
  ],
  two: [
    "a second engine on the same GPU",
    async () => {
      const words = ["serve", eightB, "--random-weights", ...onGpu, "--port", "0"];
      const first = start([perigee, ...words, "--log-level", "silent"]);
      if ((await first.seen(/serving/)) !== null) {
        await run("generate", flags.model, ...onGpu, ...short);
      }
      first.child.kill("SIGTERM");
      await first.ended;
    },
  ],
};

const chosen = flags.only?.split(",") ?? Object.keys(faults);
for (const name of chosen) if (!(name in faults)) refuse(`Cannot provoke ${name}: no such fault`);
if (chosen.some((name) => !needNoGpu.has(name))) await openOrGiveUp(() => CudaDriver.open());
for (const name of chosen) {
  const [title, provoke] = faults[name];
  console.log(`${name}: ${title}`);
  await provoke();
}
