// node bench/gpu/contracts.mjs --build          (where TypeScript is)
// node bench/gpu/models.mjs [--only llama,gpt2] (where the GPU is: plain node)
//
// Every recorded model on the cuda device, or with --device cpu on that one. In f32: how far
// logits are from the recorded ones, and whether greedy tokens are the same (limits: 1e-3, and
// every token). In bf16 and i8, weights and keys and values both, beside the reference device in
// the same formats: how far logits are, and the largest gap between the reference's two likeliest
// tokens at which another one won (limit: 1e-2 in bf16, none for mixtures: their routers choose
// between experts that are nearly equal, and a rounding decides). Exits 1 beyond a limit.
import { existsSync, symlinkSync } from "node:fs";
import { register } from "node:module";
import { parseArgs } from "node:util";
import { cudaFromEnvironment } from "../../dist/cli/cuda-environment.js";
import { CudaDevice } from "../../dist/devices/cuda/cuda-device.js";
import { openDevice, ReferenceDevice } from "../../dist/devices/index.js";
import { openOrGiveUp } from "./gpu-bench.mjs";

const built = new URL("../../native/build/gpu-contracts/", import.meta.url);
const fixturesLink = new URL("test/fixtures", built);
if (!existsSync(fixturesLink)) symlinkSync("../../../../test/fixtures", fixturesLink);
register("./contracts/resolve-stand-in.mjs", import.meta.url);
const contracts = new URL("test/contracts/", built);
const { DecoderDriver, generateGreedily } = await import(new URL("decoder-driver.js", contracts));
const { decoderFixtures, openRecordedModel, worstDifference } = await import(
  new URL("recorded-model.js", contracts)
);

const { values: flags } = parseArgs({
  options: { only: { type: "string" }, device: { type: "string", default: "cuda" } },
});
const fixtures = flags.only?.split(",") ?? decoderFixtures;
const limits = { logits: 1e-3, gap: 1e-2 };
const feeding = { chunkTokens: 16, stagger: 1, newTokens: 24 };

const device = await openOrGiveUp(() =>
  flags.device === "cuda"
    ? CudaDevice.open({ settings: cudaFromEnvironment(), warn: console.warn })
    : openDevice({ kind: flags.device }),
);

const reference = new ReferenceDevice();

function driverOf({ model, sources, cases }, format, device) {
  const kvFormat = format;
  return new DecoderDriver({ device, model, sources, format, kvFormat, sequences: cases.length });
}

/** Logits of every row of prompt and recorded continuation, fed at once: [rows][V] of each case. */
async function logitsOf(driver, { cases, model }) {
  const all = [];
  for (const [sequence, { prompt, greedy }] of cases.entries()) {
    const tokens = [...prompt, ...greedy.slice(0, -1)];
    driver.step([{ sequence, tokens }]);
    const flat = await driver.logits(tokens.map((_, row) => row));
    const size = model.spec.vocabularySize;
    all.push(tokens.map((_, row) => flat.subarray(row * size, (row + 1) * size)));
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
  const changed = exact.flatMap((rows, sequence) =>
    rows.flatMap((row, i) => {
      const wanted = likeliest(row, banned);
      return likeliest(rounded[sequence][i], banned).token === wanted.token ? [] : [wanted.gap];
    }),
  );
  return { changed: changed.length, gap: Math.max(0, ...changed) };
}

/** What a model computes in f32, beside the recording. */
async function checkExact(recorded) {
  const logits = await logitsOf(driverOf(recorded, "f32", device), recorded);
  const worst = recorded.cases.map(({ prompt, tensor }, i) => {
    const flat = logits[i].slice(0, prompt.length).flatMap((row) => Array.from(row));
    return worstDifference(Float32Array.from(flat), tensor("logits"));
  });
  const driver = driverOf(recorded, "f32", device);
  const prompts = recorded.cases.map(({ prompt }) => prompt);
  const banned = driver.decoder.spec.eosTokenIds;
  const made = await generateGreedily(driver, prompts, { ...feeding, banned });
  const same = made.every((tokens, i) => `${tokens}` === `${recorded.cases[i].greedy}`);
  return { worst: Math.max(...worst), same, banned };
}

/** What a model computes in a narrower format, beside the definition of the same. */
async function checkRounded(recorded, format, banned) {
  const actual = await logitsOf(driverOf(recorded, format, device), recorded);
  const wanted = await logitsOf(driverOf(recorded, format, reference), recorded);
  const differences = actual.flatMap((rows, i) =>
    rows.map((row, j) => worstDifference(row, wanted[i][j])),
  );
  return { worst: Math.max(...differences), ...compareWinners(wanted, actual, banned) };
}

let failures = 0;
console.log(device.description);
console.log("model                     f32 logits  ids   bf16 logits  other ids  gap    i8 logits");
for (const fixture of fixtures) {
  const recorded = openRecordedModel(fixture);
  const exact = await checkExact(recorded);
  const bf16 = await checkRounded(recorded, "bf16", exact.banned);
  const i8 = await checkRounded(recorded, "i8", exact.banned);
  const routed = recorded.model.spec.layers.some((each) => each.feedForward.kind === "experts");
  const near = routed || bf16.gap <= limits.gap;
  const good = exact.worst <= limits.logits && exact.same && near;
  if (!good) failures++;
  console.log(
    [
      fixture.padEnd(24),
      exact.worst.toExponential(2).padStart(11),
      (exact.same ? "same" : "DIFFER").padStart(6),
      bf16.worst.toExponential(2).padStart(11),
      String(bf16.changed).padStart(9),
      bf16.gap.toExponential(1).padStart(9),
      i8.worst.toExponential(2).padStart(10),
      good ? "" : "  FAILED",
    ].join(" "),
  );
}
device.dispose();
console.log(failures === 0 ? "all good" : `${failures} failed`);
process.exit(failures === 0 ? 0 : 1);
