// What follows the logits: adjustLogits, sample, logprobs.
import { RandomNumbers } from "../pair.mjs";

const vocabularies = [5, 100, 4099, 50_257, 128_256];

/** [temperature, top k, top p, min p] of each row. */
const draws = [
  [0, 0, 1, 0],
  [1, 0, 1, 0],
  [0.7, 50, 1, 0],
  [1.3, 0, 0.9, 0],
  [1, 40, 0.95, 0.05],
  [0.5, 1, 1, 0],
  [2, 0, 1, 0.1],
  [1, 0, 0.0001, 0],
  [0.9, 3, 0.5, 0],
];

/** Logits [rows, tokens]; with `ties`, of few values. */
function logitsOf(random, rows, tokens, ties) {
  const values = random.floats(rows * tokens, 3);
  return ties ? values.map(Math.round) : values;
}

/** `first`: the draw that the first row makes. Few rows are shared by many blocks. */
async function sampleCase(pair, { tokens, ties, rows = draws.length, first = 0 }) {
  const random = new RandomNumbers(tokens);
  const logits = pair.f32([rows, tokens], logitsOf(random, rows, tokens, ties));
  const drawOf = (row) => draws[(first + row) % draws.length];
  const column = (index, make) => make(Array.from({ length: rows }, (_, r) => drawOf(r)[index]));
  const f32 = (values) => pair.f32([rows], values);
  const i32 = (values) => pair.i32(values);
  const [temperature, topK] = [column(0, f32), column(1, i32)];
  const [topP, minP] = [column(2, f32), column(3, f32)];
  const verdicts = [];
  for (let round = 0; round < 5; round++) {
    const seeds = pair.u32(
      Array.from({ length: 2 * rows }, () => random.below(2 ** 32)),
      [rows, 2],
    );
    const positions = i32(Array.from({ length: rows }, () => random.below(1000)));
    const out = pair.i32(new Int32Array(rows));
    pair.run((device, pick) => {
      device.sample({
        ...{ count: rows, logits: pick(logits), out: pick(out), temperature: pick(temperature) },
        ...{ topK: pick(topK), topP: pick(topP), minP: pick(minP) },
        ...{ seeds: pick(seeds), positions: pick(positions) },
      });
    });
    verdicts.push(await pair.compare(out));
  }
  return verdicts;
}

async function logprobsCase(pair, { tokens, topCount, rows = 3 }) {
  const random = new RandomNumbers(tokens + 1);
  const logits = pair.f32([rows, tokens], logitsOf(random, rows, tokens, topCount === 20));
  const chosenTokens = pair.i32(Array.from({ length: rows }, () => random.below(tokens)));
  const chosen = pair.f32([rows]);
  const ranks = pair.i32(new Int32Array(rows));
  const topTokens = pair.i32(new Int32Array(rows * topCount), [rows, topCount]);
  const topLogprobs = pair.f32([rows, topCount]);
  pair.run((device, pick) => {
    device.logprobs({
      ...{ count: rows, logits: pick(logits), tokens: pick(chosenTokens), chosen: pick(chosen) },
      ...{ ranks: pick(ranks), topCount },
      ...(topCount > 0 && { topTokens: pick(topTokens), topLogprobs: pick(topLogprobs) }),
    });
  });
  const verdicts = [await pair.compare(chosen, { absolute: 2e-6, relative: 1e-6 })];
  verdicts.push(await pair.compare(ranks));
  if (topCount === 0) return verdicts;
  verdicts.push(await pair.compare(topTokens));
  verdicts.push(await pair.compare(topLogprobs, { absolute: 2e-6, relative: 1e-6 }));
  return verdicts;
}

async function adjustCase(pair, tokens, masked, inPlace) {
  const rows = 4;
  const random = new RandomNumbers(tokens + 2);
  const logits = pair.f32([rows, tokens], random.floats(rows * tokens, 3));
  const out = inPlace ? logits : pair.f32([rows, tokens]);
  const perRow = Math.min(tokens, 300);
  const starts = [0, 0, perRow, perRow, 2 * perRow];
  const entries = 2 * perRow;
  // Unique within a row: every third token from one that differs by row.
  const tokensOf = Array.from(
    { length: entries },
    (_, i) => (i % perRow) * Math.floor(tokens / perRow),
  );
  const bias = random.floats(entries).map((value, i) => (i % 50 === 7 ? -Infinity : value));
  const counts = Array.from({ length: entries }, () => random.below(5) - 1);
  const words = Math.ceil(tokens / 32);
  const tensors = {
    entryStarts: pair.i32(starts),
    entryTokens: pair.i32(tokensOf),
    entryBias: pair.f32([entries], bias),
    entryCounts: pair.i32(counts),
    repetitionPenalty: pair.f32([rows], [1, 1.3, 2, 0.8]),
    frequencyPenalty: pair.f32([rows], [0, 0.5, 0, -0.2]),
    presencePenalty: pair.f32([rows], [0, 0.1, 0, 1]),
    ...(masked && {
      allowed: pair.u32(
        Array.from({ length: rows * words }, () => random.below(2 ** 32)),
        [rows, words],
      ),
      allowedRows: pair.i32([1, 0, 1, 1]),
    }),
  };
  pair.run((device, pick) => {
    const picked = Object.entries(tensors).map(([name, both]) => [name, pick(both)]);
    const rest = Object.fromEntries(picked);
    device.adjustLogits({ count: rows, out: pick(out), logits: pick(logits), ...rest });
  });
  return [await pair.compare(out, { relative: 1e-6 })];
}

/** Each case: the op, what is special about it, and what runs it. */
export function* cases() {
  // A block per row.
  for (const rows of [140, 300]) {
    const name = `${rows} rows`;
    const few = { tokens: 4099, rows };
    yield { op: "sample", name, run: (pair) => sampleCase(pair, { ...few, ties: true }) };
    yield { op: "logprobs", name, run: (pair) => logprobsCase(pair, { ...few, topCount: 5 }) };
  }
  for (const tokens of vocabularies) {
    for (const ties of [false, true]) {
      const name = `${tokens} tokens${ties ? ", many alike" : ""}`;
      yield { op: "sample", name, run: (pair) => sampleCase(pair, { tokens, ties }) };
    }
    for (const first of draws.keys()) {
      const run = (pair) => sampleCase(pair, { tokens, ties: first % 2 === 0, rows: 1, first });
      yield { op: "sample", name: `${tokens} tokens, draw ${first} alone`, run };
    }
    for (const topCount of [0, 5, 20].filter((count) => count <= tokens)) {
      const name = `${tokens} tokens, the ${topCount} likeliest`;
      yield { op: "logprobs", name, run: (pair) => logprobsCase(pair, { tokens, topCount }) };
    }
    for (const masked of [false, true]) {
      for (const inPlace of [false, true]) {
        const name = `${tokens} tokens${masked ? ", masked" : ""}${inPlace ? ", in place" : ""}`;
        const run = (pair) => adjustCase(pair, tokens, masked, inPlace);
        yield { op: "adjustLogits", name, run };
      }
    }
  }
}
