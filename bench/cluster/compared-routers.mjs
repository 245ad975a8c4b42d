// How each router is started before workers of one fleet: ours, and others' from their packages.
import { spawnSync } from "node:child_process";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { freePort } from "./free-port.mjs";
import { folder, launch, saidBy, until } from "./processes.mjs";

const root = fileURLToPath(new URL("../..", import.meta.url));
export const MODEL = "pocket";
/** The same mocks under a name whose tokenizer no router has. */
const UNKNOWN_MODEL = "other";

const SMG = ["smg", "smg==1.13.0"];
const SGLANG = ["sglang-router", "sglang-router==0.3.2"];
const VLLM = ["vllm-router", "vllm-router==0.1.17"];
const DYNAMO = ["dynamo", "ai-dynamo-runtime==1.6.1", "httpx==0.28.1"];

/**
 * Each row: what it needs, the name that workers serve the model by, how it starts. `reads` is what
 * it goes by: text (compared as text), tokens (it encodes prompts itself, or lets workers do it) or
 * nothing of the prompt. `start` gives the addresses, the router's processes and helpers of it.
 */
export const ROUTERS = {
  "perigee kv": ours(["--policy", "kv"], { reads: "tokens" }),
  "perigee kv, texts": ours(["--policy", "kv"], { model: UNKNOWN_MODEL, reads: "text" }),
  "perigee prefix-hash, texts": ours(["--policy", "prefix-hash"], {
    ...{ model: UNKNOWN_MODEL, reads: "text" },
  }),
  "perigee least-loaded": ours(["--policy", "least-loaded"], { reads: "tokens" }),
  "perigee least-loaded, texts": ours(["--policy", "least-loaded"], {
    ...{ model: UNKNOWN_MODEL, reads: "nothing" },
  }),
  "perigee round-robin": ours(["--policy", "round-robin"], { reads: "tokens" }),
  "perigee round-robin, texts": ours(["--policy", "round-robin"], {
    ...{ model: UNKNOWN_MODEL, reads: "nothing" },
  }),
  "perigee kv, two routers": { ...ours(["--policy", "kv"], { reads: "tokens" }), start: startTwo },
  "smg cache_aware": other(SMG, "text", (bin, fleet, ports) =>
    launch(join(bin, "smg"), ["launch", ...common(fleet, ports), "--policy", "cache_aware"]),
  ),
  "smg round_robin": other(SMG, "nothing", (bin, fleet, ports) =>
    launch(join(bin, "smg"), ["launch", ...common(fleet, ports), "--policy", "round_robin"]),
  ),
  "sglang-router cache_aware": other(SGLANG, "text", (bin, fleet, ports) => {
    const words = [...common(fleet, ports), "--policy", "cache_aware"];
    return launch(join(bin, "python"), ["-m", "sglang_router.launch_router", ...words]);
  }),
  "vllm-router kv_aware": other(VLLM, "tokens", (bin, fleet, ports) => {
    const sources = fleet.flatMap(({ url, events, replay }) => [
      ...["--kv-event-source", `${url}=${events}`],
      ...["--kv-event-replay-source", `${url}=${replay}`],
    ]);
    const words = ["--policy", "kv_aware", "--kv-event-model", MODEL, ...sources];
    return launch(join(bin, "vllm-router"), [...common(fleet, ports), ...words]);
  }),
  "vllm-router cache_aware": other(VLLM, "text", (bin, fleet, ports) =>
    launch(join(bin, "vllm-router"), [...common(fleet, ports), "--policy", "cache_aware"]),
  ),
  "vllm-router consistent_hash": other(VLLM, "nothing", (bin, fleet, ports) =>
    launch(join(bin, "vllm-router"), [...common(fleet, ports), "--policy", "consistent_hash"]),
  ),
  "dynamo kv": {
    ...{ packages: DYNAMO, model: MODEL, reads: "tokens" },
    start: startDynamo,
  },
};

/** The folder of the packages' programs; throws where they cannot be had. */
export function programsOf({ packages }) {
  if (packages === null) return null;
  const script = join(root, "test/peers/python-venv.sh");
  const made = spawnSync(script, packages, { encoding: "utf8" });
  if (made.status !== 0) throw new Error(made.stderr.trim().split("\n").at(-1));
  return join(made.stdout.trim(), "bin");
}

function ours(words, { model = MODEL, reads }) {
  const start = async (_bin, fleet) => {
    const { url, router } = await startOurs(fleet, words);
    return { urls: [url], routers: [router], helpers: [] };
  };
  return { packages: null, model, reads, words, start };
}

async function startOurs(fleet, words) {
  const port = await freePort();
  const router = launch(process.execPath, [
    // CPU profiles are made where the caller sets this.
    ...(process.env.ROUTER_NODE_FLAGS?.split(" ") ?? []),
    ...[join(root, "dist/cli/main.js"), "route", "--port", `${port}`, "--log-level", "warn"],
    ...fleet.flatMap(({ url }) => ["--worker", url]),
    ...words,
  ]);
  return { url: `http://127.0.0.1:${port}`, router };
}

/** Two routers that share what they know of load in Redis; requests go to them in turns. */
async function startTwo(_bin, fleet) {
  const port = await freePort();
  const redis = launch("redis-server", [
    ...["--port", `${port}`, "--bind", "127.0.0.1", "--save", "", "--dir", folder],
  ]);
  const words = ["--policy", "kv", "--redis", `redis://127.0.0.1:${port}`];
  const [one, two] = [await startOurs(fleet, words), await startOurs(fleet, words)];
  return { urls: [one.url, two.url], routers: [one.router, two.router], helpers: [redis] };
}

function other(packages, reads, launchRouter) {
  const start = async (bin, fleet) => {
    const ports = { port: await freePort(), metrics: await freePort() };
    const router = launchRouter(bin, fleet, ports);
    return { urls: [`http://127.0.0.1:${ports.port}`], routers: [router], helpers: [] };
  };
  return { packages, model: MODEL, reads, start };
}

/** Limits apart, their own defaults. */
function common(fleet, { port, metrics }) {
  return [
    ...["--host", "127.0.0.1", "--port", `${port}`, "--prometheus-port", `${metrics}`],
    ...["--worker-startup-check-interval", "1", "--worker-urls", ...fleet.map(({ url }) => url)],
  ];
}

/** Its frontend is the router; each worker has a shim in Python beside it, counted apart. */
async function startDynamo(bin, fleet) {
  const env = {
    ...{ DYN_DISCOVERY_BACKEND: "file", DYN_EVENT_PLANE: "zmq", DYN_LOG: "warn" },
    DYN_FILE_KV: join(folder, `dynamo-${await freePort()}`),
  };
  const helpers = fleet.map(({ url, events }) => {
    const words = ["--url", url, "--model-path", join(root, "models/pocket")];
    const shim = [join(root, "deploy/dynamo/worker.py"), ...words, "--kv-events", events];
    return launch(join(bin, "python"), shim, env);
  });
  const port = await freePort();
  const frontend = join(root, "test/peers/dynamo_frontend.py");
  const router = launch(join(bin, "python"), [frontend, `${port}`], env);
  return { urls: [`http://127.0.0.1:${port}`], routers: [router], helpers };
}

/** Mock workers in processes of `perProcess`, with where they publish their events. */
export async function startFleet({ workers, perProcess, speedup, costModel, blocks, model }) {
  const processes = [];
  const fleet = [];
  for (let first = 0; first < workers; first += perProcess) {
    const count = Math.min(perProcess, workers - first);
    const words = [
      ...[join(root, "bench/cluster/mock-fleet.mjs"), "--kv-events", "--model-name", model],
      ...["--workers", `${count}`, "--speedup", `${speedup}`, "--cost-model", costModel],
      ...(blocks === undefined ? [] : ["--blocks", blocks]),
    ];
    const one = launch(process.execPath, words);
    processes.push(one);
    fleet.push(...(await until("the mock fleet", () => addressesIn(one, count))));
  }
  return { fleet, processes };
}

function addressesIn(process, count) {
  const lines = saidBy(process)
    .split("\n")
    .filter((line) => line.startsWith("http://"));
  if (lines.length < count) return null;
  return lines.map((line) => {
    const [url, events, replay] = line.split(" ");
    return { url, events, replay };
  });
}
