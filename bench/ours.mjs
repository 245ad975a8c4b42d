/**
 * Times Perigee through its public API, with the engine in its own thread, as users run it.
 *
 *   node bench/ours.mjs '{"file":…,"threads":2,"reps":5,"isa":null,"work":{…}}'
 */
import { statSync } from "node:fs";
import { loadLibrary } from "../dist/devices/cpu/library.js";
import { LLM } from "../dist/index.js";
import { measureLimits } from "./kernels/limits.mjs";
import { peakResidentMb } from "./machine.mjs";
import { measureWork, randomTokens } from "./work.mjs";

const { file, threads, reps, isa, vocabulary, work } = JSON.parse(process.argv[2]);
const started = performance.now();
const llm = await LLM.load(file, {
  device: "cpu",
  ...(isa === null ? {} : { isa }),
  threads,
  kvCache: { prefixCaching: false },
  speculative: { kind: "off" },
});

const options = (maxTokens) => ({ temperature: 0, maxTokens, ignoreEos: true, detokenize: false });

/** Prompt in, first token out: a little more work than the peer's figure, which draws none. */
async function timePrefill(tokens) {
  const rates = [];
  let firstMs = null;
  for (let run = -1; run < reps; run++) {
    const promptTokenIds = randomTokens(tokens, vocabulary, run + 2);
    const begun = performance.now();
    await llm.generate({ promptTokenIds }, options(1));
    if (run >= 0) rates.push((tokens / (performance.now() - begun)) * 1000);
    firstMs ??= performance.now() - started;
  }
  return { rates, firstMs };
}

/** Tokens per second over all streams, from when the last one has its first token. */
async function timeStreams(streams) {
  const rates = [];
  for (let run = -1; run < reps; run++) {
    const times = [];
    await Promise.all(
      Array.from({ length: streams }, async (_, place) => {
        const promptTokenIds = randomTokens(
          work.promptTokens,
          vocabulary,
          1000 * (run + 2) + place,
        );
        const mine = [];
        for await (const item of llm.stream({ promptTokenIds }, options(work.outputTokens))) {
          for (const _token of item.tokenIds) mine.push(performance.now());
        }
        times.push(mine);
      }),
    );
    const allRunning = Math.max(...times.map((mine) => mine[0]));
    const after = times.flat().filter((time) => time > allRunning);
    if (run >= 0) rates.push((after.length / (Math.max(...after) - allRunning)) * 1000);
  }
  return rates;
}

const { results, startMs } = await measureWork(work, timePrefill, timeStreams);
const { info } = llm;
const residentMb = peakResidentMb();
await llm[Symbol.asyncDispose]();
// As fast as these threads read memory at all, at this time on this machine.
const used = loadLibrary(isa ?? undefined).isa;
const { readGBs } = measureLimits(used, threads, statSync(file).size);
console.log(JSON.stringify({ results, startMs, residentMb, info, readGBs }));
