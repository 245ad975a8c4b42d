/**
 * node bench/kernels/sample.mjs [--threads N] [--isa avx512] [--seconds 0.3] [--beside FOLDER]
 *   [--out FILE]
 *
 * The op `sample` alone: µs a call, medians, by vocabulary, rows and filters. Logits are those of a
 * model that is fairly sure: normal ones, and a few likely tokens. --beside names another checkout
 * with a build, whose times come from alternated rounds. Runs from dist; prints JSON.
 */
import { join, resolve } from "node:path";
import { readFlags } from "../../tools/flags.mjs";
import { describeMachine, median, printResult } from "../machine.mjs";

const { values: flags } = readFlags({
  options: {
    threads: { type: "number", min: 1 },
    isa: { type: "string" },
    seconds: { type: "number", default: 0.3 },
    beside: { type: "string" },
    out: { type: "string" },
  },
});

const VOCABULARIES = [4096, 32_000, 128_256];
const ROWS = [1, 16, 256];
const FILTERS = {
  unfiltered: { topK: 0, topP: 1 },
  "top-p 0.9": { topK: 0, topP: 0.9 },
  "top-k 50": { topK: 50, topP: 1 },
};
const ROUNDS = 7;
const LIKELY_TOKENS = 40;

/** Roughly normal, seeded (xorshift32). */
function randomNormals(count, seed) {
  let state = seed;
  const uniform = () => {
    state ^= state << 13;
    state ^= state >>> 17;
    state ^= state << 5;
    return (state >>> 0) / 2 ** 32;
  };
  return Float32Array.from({ length: count }, () =>
    Math.fround((uniform() + uniform() + uniform() + uniform() - 2) * Math.sqrt(3)),
  );
}

function logitsOf(rows, vocabulary) {
  const logits = randomNormals(rows * vocabulary, 7).map((value) => 2 * value);
  const likely = randomNormals(rows * LIKELY_TOKENS, 9);
  for (let i = 0; i < likely.length; i++) {
    const row = Math.floor(i / LIKELY_TOKENS);
    logits[row * vocabulary + ((i * 7919) % vocabulary)] = 12 + 2 * likely[i];
  }
  return logits;
}

function filled(device, dtype, shape, values) {
  const tensor = device.allocate(dtype, shape);
  device.write(tensor, values);
  return tensor;
}

/** `run(filter)` samples once. */
function prepare(device, logits, rows, vocabulary) {
  const column = (value) => filled(device, "f32", [rows], new Float32Array(rows).fill(value));
  const counts = (value) => filled(device, "i32", [rows], new Int32Array(rows).fill(value));
  const shared = {
    ...{
      count: rows,
      out: device.allocate("i32", [rows]),
      temperature: column(1),
      minP: column(0),
    },
    logits: filled(device, "f32", [rows, vocabulary], logits),
    positions: filled(
      device,
      "i32",
      [rows],
      Int32Array.from({ length: rows }, (_, r) => 9 + r),
    ),
    seeds: filled(
      device,
      "u32",
      [rows, 2],
      Uint32Array.from({ length: 2 * rows }, (_, i) => 3 * i),
    ),
  };
  return Object.fromEntries(
    Object.entries(FILTERS).map(([name, { topK, topP }]) => {
      const input = { ...shared, topK: counts(topK), topP: column(topP) };
      return [name, () => device.sample(input)];
    }),
  );
}

/** µs a call, of about `seconds` of calls. */
function timeOf(run, seconds) {
  run();
  const times = [];
  const end = performance.now() + seconds * 1000;
  while (times.length < 3 || performance.now() < end) {
    const start = performance.now();
    run();
    times.push(1000 * (performance.now() - start));
  }
  return median(times);
}

async function openOf(folder) {
  const { openDevice } = await import(join(resolve(folder), "dist/devices/index.js"));
  const { threads, isa } = flags;
  return await openDevice({
    ...{
      kind: "cpu",
      ...(threads !== undefined && { threads }),
      ...(isa !== undefined && { isa }),
    },
  });
}

const folders = { here: ".", ...(flags.beside !== undefined && { beside: flags.beside }) };
const devices = await Promise.all(
  Object.entries(folders).map(async ([name, folder]) => [name, await openOf(folder)]),
);
const results = [];
for (const vocabulary of VOCABULARIES) {
  for (const rows of ROWS) {
    const logits = logitsOf(rows, vocabulary);
    const runs = devices.map(([name, device]) => [name, prepare(device, logits, rows, vocabulary)]);
    for (const filter of Object.keys(FILTERS)) {
      const times = runs.map(() => []);
      for (let round = 0; round < ROUNDS; round++) {
        runs.forEach(([, run], place) => {
          times[place].push(timeOf(run[filter], flags.seconds / ROUNDS));
        });
      }
      const found = runs.map(([name], place) => [name, Math.round(10 * median(times[place])) / 10]);
      results.push({ vocabulary, rows, filter, ...Object.fromEntries(found) });
    }
  }
}
printResult({ machine: describeMachine(), unit: "µs a call", results }, flags.out);
