// Moves pieces between two processes of this machine by each way, beside memcpy, iperf3 and, with
// --mooncake PYTHON, Mooncake's engine over TCP in that Python; with --nixl LIBRARY by NIXL, too,
// whose UCX chooses shared memory here unless UCX_TLS=tcp says otherwise (--write then writes
// results/transfer-ucx-tcp.json):
//
//   node bench/transfer.mjs [--rounds 7] [--connections 4] [--mooncake .venv/bin/python]
//     [--nixl libnixl_capi.so] [--only memory,frames,tls] [--write]
//
// Where there is openssl, frames are measured with TLS, too (`tls`): a certificate on each side.
// All runs move the same bytes between buffers of the same size; rounds alternate. Build first.
// iperf3 has as many connections and writes as much at a time (1 MiB is its most), but always the
// same buffer, which stays in a cache, while all others move 256 MiB of distinct memory: so it runs
// once more with a file of that size in memory as its source (`iperf3File`).
import { fork, spawn, spawnSync } from "node:child_process";
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { fileURLToPath } from "node:url";
import { parseArgs } from "node:util";
import koffi from "koffi";
import { openTransferClient, sharedMemory } from "../dist/transfer/index.js";
import { commandLine, describeMachine, median } from "./machine.mjs";

const { values } = parseArgs({
  options: {
    rounds: { type: "string", default: "7" },
    connections: { type: "string", default: "4" },
    mooncake: { type: "string" },
    nixl: { type: "string" },
    only: { type: "string" },
    write: { type: "boolean", default: false },
  },
});
const ROUNDS = Number(values.rounds);
const CONNECTIONS = Number(values.connections);
const BUFFER_BYTES = 256 * 2 ** 20;
const SIZES = [64 * 2 ** 10, 2 ** 20, 16 * 2 ** 20];
const IPERF_BUFFER_BYTES_MAX = 2 ** 20;
const here = (name) => fileURLToPath(new URL(name, import.meta.url));

// Shared memory is what NIXL registers; for the other ways any memory is alike.
const target = sharedMemory(BUFFER_BYTES).memory.fill(1);
const source = sharedMemory(BUFFER_BYTES).memory.fill(3);

/** A folder with a certificate and its key; null: there is no openssl. */
function makeCertificate() {
  const folder = mkdtempSync(join(tmpdir(), "perigee-transfer-"));
  const asked = "req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -days 2 -subj /CN=x";
  const files = ["-keyout", join(folder, "key.pem"), "-out", join(folder, "cert.pem")];
  const name = ["-addext", "subjectAltName=IP:127.0.0.1"];
  const made = spawnSync("openssl", [...asked.split(" "), ...name, ...files]);
  return made.status === 0 ? folder : null;
}

/** A process that offers its memory when it is asked. */
async function startOwner(certificates) {
  const words = [String(BUFFER_BYTES), values.nixl ?? "", certificates ?? ""];
  const owner = fork(here("./transfer/owner.mjs"), words);
  const waiting = [];
  owner.on("message", (message) => waiting.shift()?.(message));
  const next = () => new Promise((resolve) => waiting.push(resolve));
  const { port, tlsPort } = await next();
  const ask = (pieceBytes, by) => {
    const answer = next();
    owner.send({ pieceBytes, by });
    return answer;
  };
  return {
    ports: { plain: port, tls: tlsPort },
    ask,
    pids: [owner.pid, process.pid],
    stop: () => owner.kill(),
  };
}

function ourWay(owner, ways, tls) {
  const by = tls === undefined ? "plain" : "tls";
  const client = openTransferClient({
    ...{ ways, connections: CONNECTIONS, ...(tls && { tls }) },
    ...(ways.includes("nixl") && { nixl: values.nixl }),
  });
  return async (pieceBytes) => {
    const { offer } = await owner.ask(pieceBytes, by);
    const pieces = Array.from({ length: BUFFER_BYTES / pieceBytes }, (_, index) => ({
      index,
      into: [target.subarray(index * pieceBytes, (index + 1) * pieceBytes)],
    }));
    const began = performance.now();
    const peer = { host: "127.0.0.1", port: owner.ports[by] };
    await client.read({ peer, offer, pieces, deadlineMs: 60_000 });
    return BUFFER_BYTES / (performance.now() - began) / 1e6;
  };
}

const copy = koffi.load(null).func("void *memcpy(void *to, const void *from, size_t bytes)");

/** One thread copies the same pieces. */
async function memcpy(pieceBytes) {
  const pairs = Array.from({ length: BUFFER_BYTES / pieceBytes }, (_, index) =>
    [target, source].map((memory) => memory.subarray(index * pieceBytes)),
  );
  const began = performance.now();
  for (const [to, from] of pairs) copy(to, from, pieceBytes);
  return BUFFER_BYTES / (performance.now() - began) / 1e6;
}

let perCpuOfIperf = 0;

/** CPU time of processes in seconds, by ticks of 10 ms. */
function cpuSeconds(pids) {
  let ticks = 0;
  for (const pid of pids) {
    const fields = readFileSync(`/proc/${pid}/stat`, "utf8").split(") ")[1].split(" ");
    ticks += Number(fields[11]) + Number(fields[12]);
  }
  return ticks / 100;
}

const IPERF_FILE = `/dev/shm/perigee-iperf3-${process.pid}`;

async function startIperf() {
  const server = spawn("iperf3", ["-s", "-B", "127.0.0.1", "-p", "5299"], { stdio: "ignore" });
  await new Promise((resolve) => setTimeout(resolve, 300));
  writeFileSync(IPERF_FILE, source);
  const runFrom = async (pieceBytes, from) => {
    const length = String(Math.min(pieceBytes, IPERF_BUFFER_BYTES_MAX));
    const how = ["-c", "127.0.0.1", "-p", "5299", "-P", String(CONNECTIONS), "-l", length, ...from];
    const { stdout } = spawnSync("iperf3", [...how, "-t", "1", "-J"], { encoding: "utf8" });
    const { sum_received, cpu_utilization_percent: cpu } = JSON.parse(stdout).end;
    const gb = sum_received.bits_per_second / 8e9;
    perCpuOfIperf = gb / ((cpu.host_total + cpu.remote_total) / 100);
    return gb;
  };
  const stop = () => {
    server.kill();
    rmSync(IPERF_FILE, { force: true });
  };
  return {
    run: (pieceBytes) => runFrom(pieceBytes, []),
    runFile: (pieceBytes) => runFrom(pieceBytes, ["-F", IPERF_FILE]),
    stop,
  };
}

/** Both of its processes run in `python`; the reading one answers sizes with GB/s. */
async function startMooncake(python) {
  const script = here("./transfer/mooncake_engine.py");
  const both = [];
  const start = async (...args) => {
    const stdio = ["pipe", "pipe", "ignore"];
    const child = spawn(python, [script, String(BUFFER_BYTES), ...args], { stdio });
    both.push(child);
    const lines = createInterface({ input: child.stdout })[Symbol.asyncIterator]();
    const answer = async () => {
      for (;;) {
        const { value, done } = await lines.next();
        if (done) throw new Error("Mooncake's engine ended");
        if (value.startsWith("> ")) return value.slice(2);
      }
    };
    return { child, answer, first: await answer() };
  };
  const owner = await start();
  const reader = await start(owner.first);
  const run = async (pieceBytes) => {
    reader.child.stdin.write(`${pieceBytes}\n`);
    return Number(await reader.answer());
  };
  const stop = () => {
    for (const child of both) child.kill();
  };
  return { run, stop, pids: both.map(({ pid }) => pid) };
}

const certificates = makeCertificate();
const owner = await startOwner(certificates);
const iperf = await startIperf();
const mooncake = values.mooncake ? await startMooncake(values.mooncake) : null;
const tlsOf = (folder) => {
  const [cert, key] = ["cert.pem", "key.pem"].map((name) => readFileSync(join(folder, name)));
  return { cert, key, ca: cert };
};
const all = {
  memcpy,
  memory: ourWay(owner, ["memory"]),
  tcp: ourWay(owner, ["tcp"]),
  frames: ourWay(owner, ["stream"]),
  ...(certificates === null ? {} : { tls: ourWay(owner, ["stream"], tlsOf(certificates)) }),
  ...(values.nixl === undefined ? {} : { nixl: ourWay(owner, ["nixl"]) }),
  iperf3: iperf.run,
  iperf3File: iperf.runFile,
  ...(mooncake === null ? {} : { mooncake: mooncake.run }),
};
const wanted = values.only?.split(",") ?? Object.keys(all);
const runs = Object.fromEntries(Object.entries(all).filter(([name]) => wanted.includes(name)));

const RATIOS = [
  ["memoryOverMemcpy", "memory", "memcpy"],
  ["tcpOverIperf3", "tcp", "iperf3"],
  ["tcpOverIperf3File", "tcp", "iperf3File"],
  ["memoryOverNixl", "memory", "nixl"],
  ["tcpOverNixl", "tcp", "nixl"],
  ["tcpOverMooncake", "tcp", "mooncake"],
  ["tlsOverFrames", "tls", "frames"],
];

const results = [];
for (const pieceBytes of SIZES) {
  const speeds = Object.fromEntries(Object.keys(runs).map((name) => [name, []]));
  const ofIperf = { iperf3: [], iperf3File: [] };
  const cpu = Object.fromEntries(Object.keys(runs).map((name) => [name, 0]));
  for (let round = 0; round < ROUNDS; round++) {
    for (const [name, run] of Object.entries(runs)) {
      // Each finds its memory in the caches as it left it itself, and not as another way did.
      await run(pieceBytes);
      const pids = name === "mooncake" ? mooncake.pids : owner.pids;
      const before = cpuSeconds(pids);
      speeds[name].push(await run(pieceBytes));
      cpu[name] += cpuSeconds(pids) - before;
      ofIperf[name]?.push(perCpuOfIperf);
    }
  }
  const rounded = (of) =>
    Object.fromEntries(Object.keys(runs).map((name) => [name, Number(of(name).toFixed(2))]));
  const gbPerSecond = rounded((name) => median(speeds[name]));
  // Of both processes together: what other work on the machine changes least. Of all rounds, since
  // the system counts in ticks of 10 ms.
  const gbPerCpuSecond = rounded((name) =>
    name in ofIperf ? median(ofIperf[name]) : (ROUNDS * BUFFER_BYTES) / 1e9 / cpu[name],
  );
  const ratio = (over, under) => ({
    speed: Number((gbPerSecond[over] / gbPerSecond[under]).toFixed(2)),
    cpu: Number((gbPerCpuSecond[over] / gbPerCpuSecond[under]).toFixed(2)),
  });
  results.push({
    pieceBytes,
    gbPerSecond,
    gbPerCpuSecond,
    ...Object.fromEntries(
      RATIOS.filter(([, ...of]) => of.every((name) => name in runs)).map(([name, over, under]) => [
        name,
        ratio(over, under),
      ]),
    ),
  });
  console.log(JSON.stringify(results.at(-1)));
}
if (values.write) {
  const command = commandLine();
  const about = { command, machine: describeMachine(), rounds: ROUNDS };
  const report = { ...about, connections: CONNECTIONS, results };
  const ucx = process.env.UCX_TLS === undefined ? "" : `-ucx-${process.env.UCX_TLS}`;
  writeFileSync(here(`./results/transfer${ucx}.json`), `${JSON.stringify(report, null, 2)}\n`);
}
if (certificates !== null) rmSync(certificates, { recursive: true });
for (const { stop } of [owner, iperf, ...(mooncake === null ? [] : [mooncake])]) stop();
process.exit();
