// node bench/gpu/contracts.mjs --build          (where TypeScript is)
// node bench/gpu/models.mjs [--only llama,gpt2] (where the GPU is: plain node)
//
// Every recorded model on the cuda device, or with --device cpu on that one. In f32: how far
// logits are from the recorded ones, and whether greedy tokens are the same (limits: 1e-3, and
// every token). In bf16 and i8, weights and keys and values both, beside the reference device in
// the same formats: how far logits are, and the largest gap between the reference's two likeliest
// tokens at which another one won (limit: 1e-2 in bf16).
//
// Routers of mixtures choose between experts that may be nearly equal, where a rounding decides. In
// bf16 their rows are compared up to the first token of a sequence for which some layer chose other
// experts than the reference did; there, the expert that it chose last may be ahead of the first
// one that it refused by no more than 2e-2: no more than bf16 moves a logit of these models. Exits
// 1 beyond a limit.

import { cudaFromEnvironment } from "../../dist/cli/cuda-environment.js";
import { CudaDevice } from "../../dist/devices/cuda/cuda-device.js";
import { openDevice, ReferenceDevice } from "../../dist/devices/index.js";
import { readFlags, refuse } from "../../tools/flags.mjs";
import { openBuilt } from "./contracts/open-built.mjs";
import { openOrGiveUp } from "./gpu-bench.mjs";
import { firstOtherChoice, RoutingRecord } from "./routing.mjs";

const contracts = openBuilt();
const { DecoderDriver, generateGreedily } = await import(new URL("decoder-driver.js", contracts));
const { decoderFixtures, openRecordedModel, worstDifference } = await import(
  new URL("recorded-model.js", contracts)
);

const { values: flags } = readFlags({
  options: { only: { type: "string" }, device: { type: "string", default: "cuda" } },
});
const fixtures = flags.only?.split(",") ?? decoderFixtures;
for (const name of fixtures) {
  if (!decoderFixtures.includes(name)) refuse(`Cannot check ${name}: no such model`);
}
const limits = { logits: 1e-3, gap: 1e-2, margin: 2e-2 };
const feeding = { chunkTokens: 16, stagger: 1, newTokens: 24 };

const device = await openOrGiveUp(() =>
  flags.device === "cuda"
    ? CudaDevice.open({ settings: cudaFromEnvironment(), warn: console.warn })
    : openDevice({ kind: flags.device }),
);

const reference = new ReferenceDevice();
const routings = new Map([device, reference].map((each) => [each, new RoutingRecord(each)]));

function driverOf({ model, sources, cases }, format, device) {
  const kvFormat = format;
  return new DecoderDriver({ device, model, sources, format, kvFormat, sequences: cases.length });
}

/**
 * Every row of prompt and recorded continuation, fed at once: of each case its logits [rows][V],
 * and what the routers of each layer chose.
 */
async function computed({ cases, model, sources }, format, device) {
  const driver = driverOf({ model, sources, cases }, format, device);
  const size = model.spec.vocabularySize;
  const all = [];
  for (const [sequence, { prompt, greedy }] of cases.entries()) {
    const tokens = [...prompt, ...greedy.slice(0, -1)];
    routings.get(device).start();
    driver.step([{ sequence, tokens }]);
    const flat = await driver.logits(tokens.map((_, row) => row));
    const rows = tokens.map((_, row) => flat.subarray(row * size, (row + 1) * size));
    all.push({ rows, layers: await routings.get(device).take() });
  }
  return all;
}

/** The likeliest token and how far the next one is, end tokens left out as in the recording. */
function likeliest(logits, banned) {
  let [first, second] = [-1, -1];
  for (let token = 0; token < logits.length; token++) {
    if (banned.includes(token)) continue;
    if (first < 0 || logits[token] > logits[first]) [first, second] = [token, first];
    else if (second < 0 || logits[token] > logits[second]) second = token;
  }
  return { token: first, gap: logits[first] - logits[second] };
}

/** Where another token won: how often, and by how much it was behind in `exact` at most. */
function compareWinners(exact, rounded, banned) {
  const changed = exact.flatMap((row, i) => {
    const wanted = likeliest(row, banned);
    return likeliest(rounded[i], banned).token === wanted.token ? [] : [wanted.gap];
  });
  return { changed: changed.length, gap: Math.max(0, ...changed) };
}

/** What a model computes in f32, beside the recording. */
async function checkExact(recorded) {
  const made = await computed(recorded, "f32", device);
  const worst = recorded.cases.map(({ prompt, tensor }, i) => {
    const flat = made[i].rows.slice(0, prompt.length).flatMap((row) => Array.from(row));
    return worstDifference(Float32Array.from(flat), tensor("logits"));
  });
  const driver = driverOf(recorded, "f32", device);
  const prompts = recorded.cases.map(({ prompt }) => prompt);
  const banned = driver.decoder.spec.eosTokenIds;
  const greedy = await generateGreedily(driver, prompts, { ...feeding, banned });
  const same = greedy.every((tokens, i) => `${tokens}` === `${recorded.cases[i].greedy}`);
  return { worst: Math.max(...worst), same, banned };
}

/** What a model computes in a narrower format, beside the definition of the same. */
async function checkRounded(recorded, format, banned) {
  const actual = await computed(recorded, format, device);
  const wanted = await computed(recorded, format, reference);
  const others = wanted.map(({ layers }, i) => firstOtherChoice(layers, actual[i].layers));
  const alike = (made) => made.flatMap(({ rows }, i) => rows.slice(0, others[i]?.row));
  const [exact, rounded] = [wanted, actual].map(alike);
  const worst = Math.max(...exact.map((row, i) => worstDifference(rounded[i], row)));
  return {
    worst,
    rows: exact.length,
    rowsMax: wanted.reduce((sum, { rows }) => sum + rows.length, 0),
    margin: Math.max(0, ...others.map((other) => other?.margin ?? 0)),
    ...compareWinners(exact, rounded, banned),
  };
}

/** Title, width and text of each column. */
const columns = [
  ["model", 24, ({ fixture }) => fixture],
  ["f32 logits", 11, ({ exact }) => exact.worst.toExponential(2)],
  ["ids", 7, ({ exact }) => (exact.same ? "same" : "DIFFER")],
  ["bf16 logits", 12, ({ bf16 }) => bf16.worst.toExponential(2)],
  ["other ids", 10, ({ bf16 }) => String(bf16.changed)],
  ["gap", 9, ({ bf16 }) => bf16.gap.toExponential(1)],
  ["rows", 9, ({ bf16 }) => `${bf16.rows}/${bf16.rowsMax}`],
  ["margin", 9, ({ routed, bf16 }) => (routed ? bf16.margin.toExponential(1) : "-")],
  ["i8 logits", 10, ({ i8 }) => i8.worst.toExponential(2)],
];
const lineOf = (cellOf) =>
  columns.map((column, i) => cellOf(column)[i === 0 ? "padEnd" : "padStart"](column[1])).join("");

let failures = 0;
console.log(device.description);
console.log(
  `rows: those of bf16 that are compared with the definition, of all (i8 alike); where there are
routers, up to the first token of a sequence for which one chose other experts than the definition.
margin: how far the definition's choice was ahead there, at most (limit ${limits.margin})`,
);
console.log(lineOf(([title]) => title));
for (const fixture of fixtures) {
  const recorded = openRecordedModel(fixture);
  const exact = await checkExact(recorded);
  const bf16 = await checkRounded(recorded, "bf16", exact.banned);
  const i8 = await checkRounded(recorded, "i8", exact.banned);
  const routed = recorded.model.spec.layers.some((each) => each.feedForward.kind === "experts");
  const near = bf16.gap <= limits.gap && bf16.margin <= limits.margin && bf16.rows > 0;
  const good = exact.worst <= limits.logits && exact.same && near;
  if (!good) failures++;
  const line = lineOf(([, , textOf]) => textOf({ fixture, exact, bf16, i8, routed }));
  console.log(good ? line : `${line}  FAILED`);
}
device.dispose();
console.log(failures === 0 ? "all good" : `${failures} failed`);
process.exit(failures === 0 ? 0 : 1);
