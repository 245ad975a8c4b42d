/**
 * node bench/shutdown-flush.mjs [--dir DIR] [--mib 256] [--prompt-tokens 1000] [--limit-ms 60000]
 *
 * What closing a model saves: prompts fill that much of the bundled model's pool on the CPU, the
 * model is closed, and a second life on the same folder is asked the same prompts. Beside the time
 * of the flush stand plain writes of as many bytes to the same disk: one file, and a file for each
 * block. Nothing is synced, here or there. Runs dist; prints JSON.
 */
import { mkdirSync, mkdtempSync, rmSync } from "node:fs";
import { open, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { LLM } from "../dist/index.js";
import { readFlags } from "../tools/flags.mjs";
import { describeMachine } from "./machine.mjs";

const { values: flags } = readFlags({
  options: {
    dir: { type: "string", default: tmpdir() },
    mib: { type: "number", default: 256 },
    "prompt-tokens": { type: "number", default: 1000 },
    "limit-ms": { type: "number", default: 60_000 },
  },
});

const MIB = 2 ** 20;
const CHUNK = 4 * MIB;
const one = { temperature: 0, maxTokens: 1 };
const folder = mkdtempSync(join(flags.dir, "perigee-flush-"));

async function load(shutdownFlushMs) {
  return await LLM.load("models/pocket", {
    device: "cpu",
    kvCache: {
      ...{ poolBytes: flags.mib * MIB, hostCacheBytes: 64 * MIB, onboard: "always" },
      ...{ diskCacheBytes: 2 * flags.mib * MIB, diskCacheDir: join(folder, "cache") },
      shutdownFlushMs,
    },
  });
}

/** Different from their first token on, so that none shares a block with another. */
function promptsFor({ info }) {
  const length = flags["prompt-tokens"];
  const perPrompt = Math.ceil((length + 1) / info.blockTokens);
  return Array.from({ length: Math.floor(info.blocks / perPrompt) }, (_, prompt) => ({
    promptTokenIds: Array.from({ length }, (_, at) => 3 + ((at * 31 + prompt * 7 + 1) % 2000)),
  }));
}

/** Asks all prompts, one after the other; the tokens that were cached. */
async function ask(llm, prompts) {
  let cachedTokens = 0;
  for (const prompt of prompts) cachedTokens += (await llm.generate(prompt, one))[0].cachedTokens;
  return cachedTokens;
}

async function closed(llm) {
  let report = null;
  llm.listen({
    onFlushed: (flush) => {
      report = flush;
    },
  });
  const start = performance.now();
  await llm.close();
  return { report, closeMs: performance.now() - start };
}

async function timed(work) {
  const start = performance.now();
  await work();
  return performance.now() - start;
}

/** As `dd` writes: one file, from one buffer. */
async function plainFile(bytes) {
  const payload = Buffer.alloc(CHUNK, 7);
  const file = await open(join(folder, "plain"), "w");
  for (let left = bytes; left > 0; left -= CHUNK) {
    await file.write(payload, 0, Math.min(left, CHUNK));
  }
  await file.close();
}

/** A file for each block, two at a time, as the store writes them. */
async function plainFiles(blocks, bytes) {
  mkdirSync(join(folder, "files"));
  const payload = Buffer.alloc(bytes, 7);
  let next = 0;
  const runner = async () => {
    while (next < blocks) await writeFile(join(folder, "files", String(next++)), payload);
  };
  await Promise.all([runner(), runner()]);
}

const rounded = (value) => Math.round(value * 10) / 10;
const mibPerSecond = (bytes, ms) => rounded((bytes / MIB / ms) * 1000);

try {
  const first = await load(flags["limit-ms"]);
  const prompts = promptsFor(first);
  await ask(first, prompts);
  const { report, closeMs } = await closed(first);
  const second = await load(0);
  const cachedTokens = await ask(second, prompts);
  await closed(second);
  rmSync(join(folder, "cache"), { recursive: true });
  const third = await load(0);
  await ask(third, prompts);
  await closed(third);
  const fourth = await load(0);
  const withoutFlush = await ask(fourth, prompts);
  await closed(fourth);
  const { blocks, bytes, ms } = report;
  const fileMs = await timed(() => plainFile(bytes));
  const filesMs = await timed(() => plainFiles(blocks, bytes / blocks));
  console.log(
    JSON.stringify({
      ...{ machine: describeMachine(), prompts: prompts.length },
      promptTokens: prompts.length * flags["prompt-tokens"],
      flush: { ...report, ms: rounded(ms), closeMs: rounded(closeMs) },
      cachedTokensAfter: { withFlush: cachedTokens, withoutFlush },
      mibPerSecond: {
        flush: mibPerSecond(bytes, ms),
        plainFile: mibPerSecond(bytes, fileMs),
        plainFiles: mibPerSecond(bytes, filesMs),
      },
    }),
  );
} finally {
  rmSync(folder, { recursive: true, force: true });
}
