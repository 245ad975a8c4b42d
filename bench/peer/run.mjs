/**
 * Times llama.cpp through node-llama-cpp's public API. Started by bench/main.mjs with
 * UV_THREADPOOL_SIZE=1: without it the prebuilt library starts threads that share a core.
 *
 *   node bench/peer/run.mjs '{"file":…,"threads":2,"reps":5,"flashAttention":true,…}'
 */
import { getLlama } from "node-llama-cpp";
import { peakResidentMb } from "../machine.mjs";
import { measureWork, randomTokens } from "../work.mjs";

const { file, threads, reps, warmups, flashAttention, vocabulary, work } = JSON.parse(
  process.argv[2],
);
const started = performance.now();
const llama = await getLlama({
  build: "never",
  gpu: false,
  maxThreads: threads,
  logLevel: "error",
});
const model = await llama.loadModel({ modelPath: file, gpuLayers: 0 });

/** Decodes until `count` tokens; end tokens do not stop it. */
async function decode(sequence, last, count) {
  let pending = [last];
  for (let done = 0; done < count; ) {
    for await (const token of sequence.evaluate(pending, { temperature: 0, yieldEogToken: true })) {
      pending = [token];
      done += 1;
      if (done >= count) break;
    }
  }
}

async function context(sequences, tokens) {
  return model.createContext({
    contextSize: tokens,
    batchSize: 512,
    sequences,
    threads,
    flashAttention,
  });
}

async function timePrefill(tokens) {
  const ctx = await context(1, tokens + 64);
  const sequence = ctx.getSequence();
  const rates = [];
  let firstMs = null;
  for (let run = -warmups; run < reps; run++) {
    await sequence.clearHistory();
    const prompt = randomTokens(tokens, vocabulary, run + 2);
    const begun = performance.now();
    await sequence.evaluateWithoutGeneratingNewTokens(prompt);
    if (run >= 0) rates.push((tokens / (performance.now() - begun)) * 1000);
    firstMs ??= performance.now() - started;
  }
  await ctx.dispose();
  return { rates, firstMs };
}

async function timeStreams(streams) {
  const ctx = await context(streams, work.promptTokens + work.outputTokens + 32);
  const sequences = Array.from({ length: streams }, () => ctx.getSequence());
  const rates = [];
  for (let run = -warmups; run < reps; run++) {
    const prompts = sequences.map((_, place) =>
      randomTokens(work.promptTokens, vocabulary, 1000 * (run + 2) + place),
    );
    for (const [place, sequence] of sequences.entries()) {
      await sequence.clearHistory();
      await sequence.evaluateWithoutGeneratingNewTokens(prompts[place].slice(0, -1));
    }
    const begun = performance.now();
    await Promise.all(
      sequences.map((sequence, place) =>
        decode(sequence, prompts[place].at(-1), work.outputTokens),
      ),
    );
    if (run >= 0) rates.push(((streams * work.outputTokens) / (performance.now() - begun)) * 1000);
  }
  await ctx.dispose();
  return rates;
}

const { results, startMs } = await measureWork(work, timePrefill, timeStreams);
console.log(JSON.stringify({ results, startMs, residentMb: peakResidentMb() }));
await model.dispose();
await llama.dispose();
