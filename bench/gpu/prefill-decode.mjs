// What it costs that another engine computes a prompt: two workers, the second of which gets
// requests with and without the first as the source of their keys and values.
//
//   node bench/gpu/prefill-decode.mjs [--model DIR] [--gpus 0,1] [--path auto|host]
//     [--lengths 512,8192] [--runs 7] [--warm-ups 300] [--streams 32] [--seconds 8] [--out FILE]
//
// With one GPU both share it: the first computes while the second waits, as two GPUs would. Prints
// the medians of alternated runs, in ms from the request to its first token, and whether the tokens
// were the same. With --streams: gaps between tokens of as many running streams, undisturbed, while
// prompts of 8,192 tokens come whose keys and values another worker computes, and while this one
// computes them in chunks itself. Streams are read by a process of their own, and begin anew for
// each phase: steps take longer the longer their contexts are.
import { spawn } from "node:child_process";
import { writeFileSync } from "node:fs";
import { createInterface } from "node:readline";
import { setTimeout as sleep } from "node:timers/promises";
import { fileURLToPath } from "node:url";
import { parseArgs } from "node:util";

const { values } = parseArgs({
  options: {
    model: { type: "string", default: "bench/gpu/llama-3.1-8b" },
    gpus: { type: "string", default: "0" },
    path: { type: "string", default: "auto" },
    lengths: { type: "string", default: "512,8192" },
    runs: { type: "string", default: "7" },
    "warm-ups": { type: "string", default: "300" },
    streams: { type: "string", default: "0" },
    seconds: { type: "string", default: "8" },
    "prompts-a-second": { type: "string", default: "2" },
    device: { type: "string", default: "cuda" },
    "gpu-memory-utilization": { type: "string" },
    out: { type: "string" },
    // Of the process that reads streams.
    read: { type: "string" },
  },
});
const lengths = values.lengths.split(",").filter(Boolean).map(Number);
const runs = Number(values.runs);
const gpus = values.gpus.split(",");
const LONG = 8192;

/** A worker, and its address for others' questions. */
async function startWorker(role, { share, gpu }) {
  const isRandom = values.model.includes("llama-3.1-8b");
  const words = [
    ...["dist/cli/main.js", "worker", values.model, "--role", role, "--port", "0"],
    ...["--device", values.device, "--speculative", "off", "--log-level", "warn"],
    ...["--kv-transfer-path", values.path],
    ...(isRandom ? ["--random-weights"] : []),
    ...(values.device === "cuda" ? ["--gpu-memory-utilization", share] : []),
  ];
  const env = { ...process.env, ...(values.device === "cuda" && { CUDA_VISIBLE_DEVICES: gpu }) };
  const child = spawn(process.execPath, words, { stdio: ["ignore", "pipe", "pipe"], env });
  const url = await new Promise((resolve, reject) => {
    child.once("exit", (code) => reject(new Error(`${role} ended with ${code}`)));
    for (const input of [child.stdout, child.stderr]) {
      createInterface({ input }).on("line", (line) => {
        process.stderr.write(`${role}: ${line}\n`);
        const found = /serving \S+ at (http:\/\/[^\s"]+)/.exec(line);
        if (found) resolve(found[1]);
      });
    }
  });
  const info = await (await fetch(`${url}/worker_info`)).json();
  return { child, url, info };
}

let seed = 0;

/** Ids that no earlier prompt begins with. */
function prompt(length) {
  seed++;
  return Array.from({ length }, (_, at) => 1000 + ((seed * 7919 + at * 104_729) % 3000));
}

function post(url, body, source = null) {
  const perigee = source === null ? {} : { perigee: { kv_source: { ...source, compute: true } } };
  const common = { temperature: 0, ignore_eos: true, stream: true, return_token_ids: true };
  return fetch(`${url}/v1/completions`, {
    method: "POST",
    headers: { "content-type": "application/json" },
    body: JSON.stringify({ ...common, ...body, ...perigee }),
  });
}

async function firstTokenMs(url, ids, source) {
  const start = performance.now();
  const response = await post(url, { prompt: ids, max_tokens: 4 }, source);
  let ms = null;
  let text = "";
  for await (const part of response.body) {
    ms ??= performance.now() - start;
    text += Buffer.from(part).toString();
  }
  if (!response.ok) throw new Error(text);
  const tokens = [...text.matchAll(/"token_ids":\[([\d,]*)\]/g)].map(([, ids]) => ids).join(",");
  return { ms, tokens };
}

function quantile(list, share) {
  const sorted = [...list].sort((a, b) => a - b);
  return sorted[Math.min(sorted.length - 1, Math.floor(sorted.length * share))];
}

const median = (list) => quantile(list, 0.5);
const rounded = (number) => Number(number.toFixed(2));

/** Reads streams until it is stopped; writes the ms between tokens as a line per phase. */
async function readStreams() {
  const { url, streams, tokens } = JSON.parse(values.read);
  let gaps = [];
  createInterface({ input: process.stdin }).on("line", (line) => {
    if (line === "end") process.exit(0);
    process.stdout.write(`${JSON.stringify(gaps)}\n`);
    gaps = [];
  });
  const one = async () => {
    const response = await post(url, { prompt: prompt(256), max_tokens: tokens });
    let before = null;
    for await (const _ of response.body) {
      const now = performance.now();
      if (before !== null) gaps.push(rounded(now - before));
      before = now;
    }
  };
  seed = 500_000;
  await Promise.all(Array.from({ length: streams }, one));
}

/** Streams that a process of their own reads. */
async function startStreams(url, streams) {
  const read = JSON.stringify({ url, streams, tokens: 16_000 });
  const reader = spawn(process.execPath, [fileURLToPath(import.meta.url), "--read", read], {
    stdio: ["pipe", "pipe", "inherit"],
  });
  const lines = createInterface({ input: reader.stdout })[Symbol.asyncIterator]();
  await sleep(3000);
  return {
    take: async () => {
      reader.stdin.write("take\n");
      return JSON.parse((await lines.next()).value);
    },
    end: async () => {
      reader.stdin.write("end\n");
      await new Promise((resolve) => reader.once("exit", resolve));
    },
  };
}

/** Gaps of streams that run, in three phases. */
async function gapsOf(decode, source) {
  const streams = Number(values.streams);
  const seconds = Number(values.seconds);
  const phases = {
    undisturbed: null,
    "prompts elsewhere": source,
    "prompts here, in chunks": "here",
  };
  const rows = [];
  for (const [phase, from] of Object.entries(phases)) {
    const { take, end: endStreams } = await startStreams(decode.url, streams);
    await take();
    const end = performance.now() + 1000 * seconds;
    const first = [];
    const pace = 1000 / Number(values["prompts-a-second"]);
    const asked = [];
    while (performance.now() < end) {
      if (from !== null) {
        const given = from === "here" ? null : from;
        asked.push(firstTokenMs(decode.url, prompt(LONG), given).then(({ ms }) => first.push(ms)));
      }
      await sleep(pace);
    }
    const gaps = await take();
    await Promise.all(asked);
    await endStreams();
    await sleep(1000);
    rows.push({
      ...{ phase, streams, gaps: gaps.length },
      ...{ p50: rounded(median(gaps)), p99: rounded(quantile(gaps, 0.99)) },
      max: rounded(quantile(gaps, 1)),
      ...(first.length > 0 && { prompts: first.length, firstTokenMs: rounded(median(first)) }),
    });
    console.log(JSON.stringify(rows.at(-1)));
  }
  return rows;
}

async function firstTokens(prefill, decode, source) {
  const rows = [];
  for (const length of lengths) {
    const local = [];
    const remote = [];
    let equal = 0;
    // Code that runs for the first times is slow on all sides: a server's is compiled after some
    // hundred requests.
    const warmUps = length < 2048 ? Number(values["warm-ups"]) : 5;
    for (let run = -warmUps; run < runs; run++) {
      // The same prompt, to another worker each: neither has it stored.
      const ids = prompt(length);
      const far = await firstTokenMs(decode.url, ids, source);
      const near = await firstTokenMs(decode.url, prompt(length), null);
      const there = await firstTokenMs(prefill.url, ids, null);
      if (run < 0) continue;
      remote.push(far.ms);
      local.push(near.ms);
      if (far.tokens === there.tokens) equal++;
    }
    rows.push({
      length,
      localMs: rounded(median(local)),
      remoteMs: rounded(median(remote)),
      addedMs: rounded(median(remote) - median(local)),
      ratio: rounded(median(remote) / median(local)),
      equal: `${equal} of ${runs}`,
    });
    console.log(JSON.stringify(rows.at(-1)));
  }
  return rows;
}

async function main() {
  // Shares count the memory that others have taken, too.
  const own = values["gpu-memory-utilization"] ?? (gpus.length > 1 ? "0.85" : "0.45");
  const second = gpus.length > 1 ? own : String(Math.min(0.92, 2 * Number(own)));
  const prefill = await startWorker("prefill", { share: own, gpu: gpus[0] });
  const decode = await startWorker("decode", { share: second, gpu: gpus.at(-1) });
  const source = prefill.info.transfer;
  try {
    const ttft = await firstTokens(prefill, decode, source);
    const gaps = values.streams === "0" ? [] : await gapsOf(decode, source);
    const metrics = await (await fetch(`${decode.url}/metrics`)).text();
    console.log(metrics.match(/^.*kv_transfer_blocks_total\{.*$/gm)?.join("\n"));
    const result = { path: values.path, gpus: gpus.length, ttft, gaps };
    if (values.out) writeFileSync(values.out, `${JSON.stringify(result, null, 2)}\n`);
  } finally {
    prefill.child.kill("SIGKILL");
    decode.child.kill("SIGKILL");
  }
}

await (values.read === undefined ? main() : readStreams());
