// What it costs that another engine computes a prompt: two workers on one GPU, the second of which
// gets requests with and without the first as the source of their keys and values.
//
//   node bench/gpu/prefill-decode.mjs [--model DIR] [--lengths 512,8192] [--runs 7] [--out FILE]
//
// Both share the GPU, so the first computes while the second waits, as two GPUs would. Prints the
// medians of alternated runs, in ms from the request to its first token, and whether the tokens
// were the same. Blocks pass host memory of both and a connection.
import { spawn } from "node:child_process";
import { writeFileSync } from "node:fs";
import { createInterface } from "node:readline";
import { parseArgs } from "node:util";

const { values } = parseArgs({
  options: {
    model: { type: "string", default: "bench/gpu/llama-3.1-8b" },
    lengths: { type: "string", default: "512,8192" },
    runs: { type: "string", default: "7" },
    device: { type: "string", default: "cuda" },
    "gpu-memory-utilization": { type: "string", default: "0.45" },
    out: { type: "string" },
  },
});
const lengths = values.lengths.split(",").map(Number);
const runs = Number(values.runs);

/** A worker, and its address for others' questions. */
async function startWorker(role, share) {
  const isRandom = values.model.includes("llama-3.1-8b");
  const words = [
    ...["dist/cli/main.js", "worker", values.model, "--role", role, "--port", "0"],
    ...["--device", values.device, "--speculative", "off", "--log-level", "warn"],
    ...(isRandom ? ["--random-weights"] : []),
    ...(values.device === "cuda" ? ["--gpu-memory-utilization", share] : []),
  ];
  const child = spawn(process.execPath, words, { stdio: ["ignore", "pipe", "pipe"] });
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

async function firstTokenMs(url, ids, source) {
  const perigee = source === null ? {} : { perigee: { kv_source: { ...source, compute: true } } };
  const body = { prompt: ids, max_tokens: 4, temperature: 0, ignore_eos: true, stream: true };
  const start = performance.now();
  const response = await fetch(`${url}/v1/completions`, {
    method: "POST",
    headers: { "content-type": "application/json" },
    body: JSON.stringify({ ...body, ...perigee, return_token_ids: true }),
  });
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

function median(list) {
  return [...list].sort((a, b) => a - b)[Math.floor(list.length / 2)];
}

const share = values["gpu-memory-utilization"];
const prefill = await startWorker("prefill", share);
// Shares count the memory that others have taken, too.
const decode = await startWorker("decode", String(Math.min(0.92, 2 * Number(share))));
const results = [];
try {
  const source = prefill.info.transfer;
  for (const length of lengths) {
    const local = [];
    const remote = [];
    let equal = 0;
    for (let run = -2; run < runs; run++) {
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
    results.push({
      length,
      localMs: Number(median(local).toFixed(1)),
      remoteMs: Number(median(remote).toFixed(1)),
      ratio: Number((median(remote) / median(local)).toFixed(2)),
      equal: `${equal} of ${runs}`,
    });
    console.log(JSON.stringify(results.at(-1)));
  }
} finally {
  prefill.child.kill("SIGKILL");
  decode.child.kill("SIGKILL");
}
if (values.out) writeFileSync(values.out, `${JSON.stringify(results, null, 2)}\n`);
