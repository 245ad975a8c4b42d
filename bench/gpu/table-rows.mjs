/**
 * The work of the table, each row through the whole engine (`LLM`): prompts of random token ids,
 * greedy, no text. A step's time is what passes between two reports of the engine.
 */
import { median } from "../machine.mjs";
import { decodeWork, limitMs, prefillWork, requestsLimitSeconds } from "./shape.mjs";

const drawing = { temperature: 0, ignoreEos: true, detokenize: false };

/** Random token ids; none are special. */
function randomPrompt(length, vocabulary) {
  const promptTokenIds = Array.from({ length }, () => Math.floor(Math.random() * vocabulary));
  return { promptTokenIds };
}

/** Arrival times in milliseconds of the reports of steps that `wanted` picks, while `work` runs. */
async function reportsOf(llm, wanted, work) {
  const times = [];
  const onStep = (report) => {
    if (wanted(report)) times.push(performance.now());
  };
  const stop = llm.listen({ onStep });
  try {
    const begun = performance.now();
    await work();
    return { times, seconds: (performance.now() - begun) / 1000 };
  } finally {
    stop();
  }
}

/** Milliseconds of a step that decodes `batch` sequences and nothing else; seconds of it all. */
async function decodeOnce(llm, { batch, promptTokens, outputTokens, signal }) {
  const { vocabularySize } = llm.info;
  const prompts = Array.from({ length: batch }, () => randomPrompt(promptTokens, vocabularySize));
  const isDecode = (report) => report.stepTokens === batch && report.sequences === batch;
  const options = { ...drawing, maxTokens: outputTokens, ...(signal ? { signal } : {}) };
  const { times, seconds } = await reportsOf(llm, isDecode, () => llm.generate(prompts, options));
  // The first steps fill the pipeline.
  const steady = times.slice(2);
  const steps = steady.length - 1;
  if (steps < 1) throw new Error(`${times.length} steps decoded all ${batch} sequences: too few`);
  return { stepMs: (steady.at(-1) - steady[0]) / steps, seconds, steps };
}

/** Medians of `runs`, after one that warms up. */
async function repeat(runs, warmups, once) {
  const found = [];
  for (let run = -warmups; run < runs; run++) {
    const result = await once();
    if (run >= 0) found.push(result);
  }
  return found;
}

const middle = (found, key) => median(found.map((each) => each[key]));

/** A row of steps that decode: `context` is the mean over them. */
function decodeRow(id, work, unit, spans) {
  const { batch, promptTokens, outputTokens, runs } = spans;
  const context = promptTokens + outputTokens / 2;
  return {
    ...{ id, work, unit, better: unit === "ms" ? "less" : "more" },
    limit: (shape, ceilings) => inUnit(limitMs(decodeWork(shape, batch, context), ceilings)),
    run: async (llm, signal) => {
      const found = await repeat(runs, 1, () => decodeOnce(llm, { ...spans, signal }));
      return { value: inUnit(middle(found, "stepMs")), runs, steps: found[0].steps };
    },
  };
  function inUnit(stepMs) {
    return unit === "ms" ? stepMs : (1000 * batch) / stepMs;
  }
}

/** One long prompt at once. */
function prefillRow(tokens) {
  return {
    ...{ id: "prefill-8192", work: `prefill ${tokens} tokens`, unit: "tok/s", better: "more" },
    limit: (shape, ceilings) => (1000 * tokens) / limitMs(prefillWork(shape, tokens), ceilings),
    run: async (llm) => {
      const prompt = () => randomPrompt(tokens, llm.info.vocabularySize);
      const runs = 5;
      const found = await repeat(runs, 2, async () => {
        const given = prompt();
        const begun = performance.now();
        await llm.generate(given, { ...drawing, maxTokens: 1 });
        return { rate: (1000 * tokens) / (performance.now() - begun) };
      });
      return { value: middle(found, "rate"), runs };
    },
  };
}

/** Many requests at once: prompts and all that is drawn. */
function requestsRow({ batch, promptTokens, outputTokens }) {
  return {
    id: "requests-256",
    work: `${batch} requests of ${promptTokens} in, ${outputTokens} out`,
    ...{ unit: "s", better: "less" },
    limit: (shape, ceilings) => {
      const sizes = { prompts: batch, inputLength: promptTokens, outputLength: outputTokens };
      return requestsLimitSeconds(shape, sizes, ceilings);
    },
    run: async (llm) => {
      const runs = 3;
      const spans = { batch, promptTokens, outputTokens };
      const found = await repeat(runs, 1, () => decodeOnce(llm, spans));
      return { value: middle(found, "seconds"), runs };
    },
  };
}

/** All rows, in the order in which they are run: the longest context last. */
export function tableRows({ longTokens = 100_000, promptTokens = 512, prefillTokens = 8192 } = {}) {
  const short = { promptTokens: 32, outputTokens: 192 };
  const long = { promptTokens, outputTokens: 128, runs: 3 };
  const hundred = { batch: 1, promptTokens: longTokens, outputTokens: 72, runs: 1 };
  const context = `${promptTokens}–${promptTokens + 128} ctx`;
  return [
    decodeRow("decode-1", "decode, batch 1, 128 ctx", "tok/s", { ...short, batch: 1, runs: 5 }),
    decodeRow("decode-8", "decode step, batch 8, 128 ctx", "ms", { ...short, batch: 8, runs: 5 }),
    decodeRow("decode-64", `decode step, batch 64, ${context}`, "ms", { ...long, batch: 64 }),
    decodeRow("decode-256", `decode step, batch 256, ${context}`, "ms", { ...long, batch: 256 }),
    prefillRow(prefillTokens),
    requestsRow({ batch: 256, promptTokens, outputTokens: 128 }),
    longRow(hundred),
  ];
}

/** Its prompt is computed once: no run that warms up. */
function longRow(spans) {
  const title = `decode, batch 1, ${Math.round(spans.promptTokens / 1000)}k ctx`;
  const row = decodeRow("decode-100k", title, "tok/s", spans);
  return {
    ...row,
    run: async (llm) => {
      // What is not done by then is not measured: a prompt this long takes a while.
      const signal = AbortSignal.timeout(60_000);
      const { stepMs, seconds, steps } = await decodeOnce(llm, { ...spans, signal });
      return { value: 1000 / stepMs, runs: 1, steps, promptAndDecodeSeconds: seconds };
    },
  };
}
