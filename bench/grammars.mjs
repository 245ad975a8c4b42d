// node bench/grammars.mjs [--tokens 300] [--output bench/results/grammars.json]
//
// Structured output by schema and size of the vocabulary, from the build (npm run build): how long
// a grammar takes until it is compiled (with its trial), how long the calling thread could not turn
// meanwhile, the same grammar a second time, and each token's mask and acceptance. Vocabularies
// are made up of syllables. Times are of the wall clock.
import { writeFileSync } from "node:fs";
import { performance } from "node:perf_hooks";
import { setTimeout as sleep } from "node:timers/promises";
import { GrammarCompiler, GrammarOptions } from "../dist/sampling/index.js";
import { readFlags } from "../tools/flags.mjs";
import { GRAMMARS } from "./grammar-cases.mjs";
import { describeMachine } from "./machine.mjs";

const { values: flags } = readFlags({
  options: {
    tokens: { type: "number", default: 300, min: 1 },
    output: { type: "string", published: "bench/results/grammars.json" },
  },
});

/** Numbers in [0, 1), always the same (Mulberry32). */
function chance(seed) {
  let state = seed;
  return () => {
    state = (state + 0x6d2b79f5) | 0;
    let bits = Math.imul(state ^ (state >>> 15), 1 | state);
    bits = (bits + Math.imul(bits ^ (bits >>> 7), 61 | bits)) ^ bits;
    return ((bits ^ (bits >>> 14)) >>> 0) / 2 ** 32;
  };
}

/** All bytes, what JSON is made of, and words, numbers and signs by chance. */
function wordsOf(count) {
  const draw = chance(count);
  const pick = (text) => text[Math.floor(draw() * text.length)];
  const known = new Map();
  for (let byte = 0; byte < 256; byte++) known.set(`byte ${byte}`, Buffer.from([byte]));
  for (const text of ['":', ' "', '{"', '"}', '","', '": "', "},", "  ", "\n\n", "[]", "true"]) {
    known.set(text, Buffer.from(text));
  }
  while (known.size < count - 1) {
    let word = draw() < 0.5 ? " " : "";
    const kind = draw();
    const length = 1 + Math.floor(draw() * 4);
    for (let part = 0; part < length; part++) {
      if (kind < 0.1) word += pick("0123456789");
      else if (kind < 0.2) word += pick("{}[]()\"':;,.<>/?!@#$%^&*-_=+\\\n");
      else word += pick("bcdfghjklmnprstvwz") + pick("aeiouy") + (draw() < 0.3 ? pick("nrst") : "");
    }
    known.set(word, Buffer.from(word));
  }
  return [...known.values(), Buffer.alloc(0)];
}

function vocabularyOf(words) {
  let length = 0;
  const ends = Uint32Array.from(words, (word) => (length += word.length));
  return { bytes: new Uint8Array(Buffer.concat(words)), ends };
}

function share(values, part) {
  const sorted = [...values].sort((a, b) => a - b);
  return Number((sorted[Math.floor(part * (sorted.length - 1))] ?? 0).toFixed(3));
}

/** The longest that this thread did not turn while `work` ran, and how long that took. */
async function watched(work) {
  let worst = 0;
  let last = performance.now();
  const beat = setInterval(() => {
    const now = performance.now();
    worst = Math.max(worst, now - last);
    last = now;
  }, 1);
  const start = performance.now();
  try {
    return { result: await work(), ms: performance.now() - start, worst };
  } finally {
    worst = Math.max(worst, performance.now() - last);
    clearInterval(beat);
  }
}

/** Follows random outputs; letters are wanted more often than ends. */
async function follow(matcher, count, size, draw) {
  const mask = new Uint32Array(Math.ceil(size / 32));
  const times = [];
  for (let step = 0; step < count && !matcher.isTerminated(); step++) {
    const start = performance.now();
    await matcher.fillBitmask(mask);
    const asked = performance.now();
    const allowed = [];
    for (let id = 0; id < size; id++) if ((mask[id >>> 5] >>> (id & 31)) & 1) allowed.push(id);
    const token = allowed[Math.floor(draw() * allowed.length)];
    const chosen = performance.now();
    if (!matcher.accept(token)) throw new Error("a token of the mask was refused");
    times.push(asked - start + (performance.now() - chosen));
  }
  return times;
}

async function measure(compiler, output, size) {
  const first = await watched(() => compiler.compile(output));
  const again = await watched(() => compiler.compile(output));
  const draw = chance(1);
  const times = [];
  let ended = null;
  try {
    for (let round = 0; times.length < flags.tokens && round < 50; round++) {
      const matcher = await first.result.createMatcher();
      times.push(...(await follow(matcher, flags.tokens - times.length, size, draw)));
      matcher.dispose();
    }
  } catch (error) {
    ended = error.message;
  }
  first.result.dispose();
  again.result.dispose();
  return {
    compileMs: Number(first.ms.toFixed(1)),
    pauseMs: Number(first.worst.toFixed(1)),
    cachedMs: Number(again.ms.toFixed(3)),
    tokens: times.length,
    tokenMs: { p50: share(times, 0.5), p99: share(times, 0.99), worst: share(times, 1) },
    ...(ended === null ? {} : { ended }),
  };
}

const results = [];
for (const size of [4_096, 32_000, 150_000]) {
  const compiler = new GrammarCompiler({
    tokens: vocabularyOf(wordsOf(size)),
    vocabularySize: size,
    stopTokenIds: [size - 1],
    options: GrammarOptions.parse({}),
  });
  // The first grammar waits for the vocabulary and for a process.
  const begun = await watched(() => compiler.compile({ regex: "a" }));
  begun.result.dispose();
  const [compileMs, pauseMs] = [Math.round(begun.ms), Math.round(begun.worst)];
  results.push({ vocabulary: size, grammar: "the first", compileMs, pauseMs });
  await sleep(50);
  for (const [grammar, output] of Object.entries(GRAMMARS)) {
    let row;
    try {
      row = await measure(compiler, output, size);
    } catch (error) {
      row = { refused: error.message };
    }
    results.push({ vocabulary: size, grammar, ...row });
    console.log(JSON.stringify(results.at(-1)));
  }
  compiler.dispose();
}
const machine = { ...describeMachine(), note: "shared with other work" };
const command = `node bench/grammars.mjs --tokens ${flags.tokens}`;
writeFileSync(flags.output, `${JSON.stringify({ command, machine, results }, null, 2)}\n`);
