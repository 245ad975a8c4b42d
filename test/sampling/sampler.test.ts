import { afterAll, describe, expect, test } from "vitest";
import { uniformAt } from "#base";
import { type Device, ReferenceDevice } from "#devices";
import { type SamplingOptions, SamplingParams, SequenceSampling } from "#sampling";
import { pretendMatcher } from "../support/pretend-matcher.ts";
import { RowSampler } from "../support/row-sampler.ts";

const vocabularySize = 70;
const rowsMax = 6;
const device: Device = new ReferenceDevice();
const rowSampler = new RowSampler({ device, rowsMax, vocabularySize, topLogprobsMax: 4 });
const { sampler } = rowSampler;
const logits = device.allocate("f32", [rowsMax, vocabularySize]);

afterAll(() => {
  sampler.dispose();
  device.dispose();
});

/** Random logits, different in each row. */
const values = Float32Array.from(
  { length: rowsMax * vocabularySize },
  (_, i) => 6 * uniformAt({ low: 3, high: 0 }, i) - 3,
);

const rowOf = (row: number): Float32Array =>
  values.slice(row * vocabularySize, (row + 1) * vocabularySize);

const argmax = (row: ArrayLike<number>): number =>
  Array.from(row).reduce((best, value, i, all) => (value > (all[best] ?? 0) ? i : best), 0);

function logSoftmax(row: Float32Array): number[] {
  const sum = row.reduce((total, value) => total + Math.exp(value), 0);
  return Array.from(row, (value) => value - Math.log(sum));
}

const sequence = (options: SamplingOptions, seed = 1): SequenceSampling =>
  new SequenceSampling({
    params: SamplingParams.parse(options),
    seed,
    promptTokens: [0, 1, 2],
    vocabularySize,
    endTokenIds: [69],
  });

async function draw(sequences: readonly SequenceSampling[], position = 3) {
  device.write(logits, values);
  const rows = sequences.map((sampling) => ({ sampling, position }));
  return await rowSampler.sample(logits, rows);
}

describe("Sampler", () => {
  test("greedy rows take the largest logit", async () => {
    const greedy = Array.from({ length: rowsMax }, () => sequence({ temperature: 0 }));
    const { tokens, logprobs } = await draw(greedy);
    expect(Array.from(tokens)).toEqual(greedy.map((_, row) => argmax(rowOf(row))));
    expect(logprobs).toEqual(greedy.map(() => null));
  });

  test("a sample depends on seed and position, not on the batch", async () => {
    const wild = { temperature: 2 };
    const alone = await draw([sequence(wild, 5)], 11);
    const again = await draw([sequence(wild, 5), sequence({ repetitionPenalty: 2 }, 6)], 11);
    expect(again.tokens[0]).toBe(alone.tokens[0]);
  });

  test("other seeds and positions sample other tokens", async () => {
    const seen = new Set<number>();
    for (let seed = 0; seed < 10; seed++) {
      const { tokens } = await draw([sequence({ temperature: 2 }, seed)], seed);
      seen.add(tokens[0] ?? -1);
    }
    expect(seen.size).toBeGreaterThan(4);
  });

  test("a top k beyond 32 bits keeps all, a top p of nearly nothing the likeliest", async () => {
    const wild = { temperature: 2 };
    const all = await draw(Array.from({ length: rowsMax }, (_, seed) => sequence(wild, seed)));
    for (const topK of [2 ** 32 + 1, 2 ** 53 - 1]) {
      const rows = Array.from({ length: rowsMax }, (_, seed) => sequence({ ...wild, topK }, seed));
      expect((await draw(rows)).tokens).toEqual(all.tokens);
    }
    const nearly = await draw([sequence({ ...wild, topP: 1e-300 })]);
    expect(nearly.tokens[0]).toBe(argmax(rowOf(0)));
  });

  test("a row that throws fails alone, and changes nothing beside it", async () => {
    const accepted = [sequence({ temperature: 0 }), sequence({ temperature: 0, minTokens: 4 })];
    const allowed = sequence({ temperature: 0, allowedTokenIds: [33, 64] });
    const matcher = pretendMatcher({
      fillBitmask: async () => {
        throw new Error("the library broke");
      },
    });
    const params = SamplingParams.parse({ structuredOutput: { regex: "a" } });
    const options = { params, seed: 1, promptTokens: [0], vocabularySize, endTokenIds: [69] };
    const broken = new SequenceSampling({ ...options, matcher });
    // Found only while the row is written, behind a mask.
    const odd = sequence({ allowedTokenIds: [1, 2], logitBias: { 5: 1, [vocabularySize]: 1 } });
    const plain = await draw([...accepted, allowed, ...accepted]);
    const { tokens, failures } = await draw([...accepted, allowed, broken, odd]);
    expect([...failures]).toMatchObject([
      [3, { message: "the library broke" }],
      [4, { message: `Cannot edit the logit of token ${vocabularySize}: it has none` }],
    ]);
    expect(tokens.slice(0, 3)).toEqual(plain.tokens.slice(0, 3));
    const again = await draw([odd, broken, allowed, ...accepted]);
    expect(again.tokens[2]).toBe(tokens[2]);
    expect([...again.failures.keys()].sort()).toEqual([0, 1]);
    expect((await draw(accepted)).failures.size).toBe(0);
  });

  test("a row's wishes change that row only", async () => {
    const best = argmax(rowOf(0));
    const banned = sequence({ temperature: 0, logitBias: { [best]: -100 } });
    const only = sequence({ temperature: 0, allowedTokenIds: [33, 64] });
    const plain = sequence({ temperature: 0 });
    const { tokens } = await draw([banned, plain, only, plain]);
    const others = rowOf(0);
    others[best] = Number.NEGATIVE_INFINITY;
    const [a = 0, b = 0] = [rowOf(2)[33], rowOf(2)[64]];
    expect(Array.from(tokens)).toEqual([
      argmax(others),
      argmax(rowOf(1)),
      a >= b ? 33 : 64,
      argmax(rowOf(3)),
    ]);
  });

  test("a mask does not stay for the next batch", async () => {
    await draw([sequence({ temperature: 0, allowedTokenIds: [5] })]);
    const { tokens } = await draw([sequence({ temperature: 0, logitBias: { 5: -1 } })]);
    expect(tokens[0]).toBe(argmax(rowOf(0)));
  });

  test("penalties act on sampled tokens", async () => {
    const best = argmax(rowOf(0));
    const penalized = sequence({ temperature: 0, presencePenalty: 2, frequencyPenalty: 2 });
    penalized.accept(best);
    penalized.accept(best);
    const row = rowOf(0);
    row[best] = (row[best] ?? 0) - 2 - 2 * 2;
    expect((await draw([penalized])).tokens[0]).toBe(argmax(row));
  });

  test("log-probabilities are of the logits as the model made them", async () => {
    const wanted = logSoftmax(rowOf(0));
    const best = Array.from(wanted.keys()).sort((a, b) => (wanted[b] ?? 0) - (wanted[a] ?? 0));
    const biased = sequence({ temperature: 0, logprobs: 3, logitBias: { 7: 100 } });
    const silent = sequence({ temperature: 0 });
    const { tokens, logprobs } = await draw([biased, silent]);
    expect(tokens[0]).toBe(7);
    expect(logprobs[1]).toBeNull();
    const [found] = logprobs;
    expect(found?.tokenId).toBe(7);
    expect(found?.logprob).toBeCloseTo(wanted[7] ?? 0, 5);
    expect(found?.rank).toBe(best.indexOf(7) + 1);
    expect(found?.top.map(({ tokenId }) => tokenId)).toEqual(best.slice(0, 3));
    expect(found?.top.map(({ rank }) => rank)).toEqual([1, 2, 3]);
    for (const { tokenId, logprob } of found?.top ?? []) {
      expect(logprob).toBeCloseTo(wanted[tokenId] ?? 0, 5);
    }
  });

  test("more than the device sorts out, all of them, and chosen ones come over the host", async () => {
    const batch = [
      sequence({ temperature: 0, logprobs: 2 }),
      sequence({ temperature: 0, logprobs: 5 }),
      sequence({ temperature: 0, logprobs: -1 }),
      sequence({ temperature: 0, logprobTokenIds: [9, 3] }),
      sequence({ temperature: 0, logprobs: 0 }),
    ];
    const { tokens, logprobs } = await draw(batch);
    expect(logprobs.map((found) => found?.top.length)).toEqual([2, 5, vocabularySize, 2, 0]);
    expect(logprobs[3]?.top.map(({ tokenId }) => tokenId)).toEqual([9, 3]);
    logprobs.forEach((found, row) => {
      const wanted = logSoftmax(rowOf(row));
      expect(found?.tokenId).toBe(tokens[row]);
      expect(found?.rank).toBe(1);
      for (const { tokenId, logprob } of found?.top ?? []) {
        expect(logprob).toBeCloseTo(wanted[tokenId] ?? 0, 4);
      }
    });
  });

  test("scores any number of prompt tokens", async () => {
    const rows = 2 * rowsMax + 1;
    const prompt = device.allocate("f32", [rows, vocabularySize]);
    const many = Float32Array.from(
      { length: rows * vocabularySize },
      (_, i) => values[i % values.length] ?? 0,
    );
    device.write(prompt, many);
    const tokens = Int32Array.from({ length: rows }, (_, row) => row);
    const scores = await sampler.score(prompt, tokens, { kind: "top", count: 1 });
    expect(scores.map(({ tokenId }) => tokenId)).toEqual(Array.from(tokens));
    scores.forEach(({ logprob, top }, row) => {
      const wanted = logSoftmax(many.slice(row * vocabularySize, (row + 1) * vocabularySize));
      expect(logprob).toBeCloseTo(wanted[row] ?? 0, 5);
      expect(top[0]?.tokenId).toBe(argmax(wanted));
    });
    device.release(prompt);
  });

  test("the tokens stay on the device for the next step", async () => {
    const { tokens } = await draw([sequence({ temperature: 0 }), sequence({ temperature: 0 })]);
    const kept = await device.readI32(device.rows(sampler.tokens, 0, 2));
    expect(kept).toEqual(tokens);
  });
});

test.for([0, 1, 130])("edits go to the device in parts, of %i entries and a row", async (most) => {
  const small = new RowSampler({ device, rowsMax, vocabularySize, editEntriesMax: most });
  small.sampler.reserve(4);
  const history = [...Array(vocabularySize - 1).keys()];
  const rows = Array.from({ length: rowsMax }, (_, row) => {
    // A row without edits stands among those with some.
    const options = row === 2 ? {} : { repetitionPenalty: 100, logprobs: row === 3 ? 0 : null };
    const params = SamplingParams.parse({ temperature: 0, ...options });
    const endTokenIds: number[] = [];
    const sampling = { params, seed: 1, promptTokens: history, vocabularySize, endTokenIds };
    return { sampling: new SequenceSampling(sampling), position: history.length };
  });
  const ones = new Float32Array(rowsMax * vocabularySize).fill(1);
  for (const part of [rows, rows.toSpliced(3, 1)]) {
    device.write(logits, ones);
    const { tokens } = await small.sample(logits, part);
    expect([...tokens]).toEqual(part.map((_, row) => (row === 2 ? 0 : vocabularySize - 1)));
  }
  small.sampler.dispose();
});

describe("samples that are under way", () => {
  test("are read in order, though another one was enqueued behind them", async () => {
    const wishes = [sequence({ temperature: 0, logprobs: 2 }), sequence({ temperature: 2 }, 5)];
    const at = (position: number) => wishes.map((sampling) => ({ sampling, position }));
    const expected = [await draw(wishes, 3), await draw(wishes, 4)];
    device.write(logits, values);
    const first = await rowSampler.start(logits, at(3));
    const second = await rowSampler.start(logits, at(4));
    expect([await first.take(), await second.take()]).toEqual(expected);
  });

  test("count towards minTokens, and need no history", async () => {
    const best = argmax(rowOf(0));
    const sampling = sequence({ temperature: 0, minTokens: 2, stopTokenIds: [best] });
    const drawWith = async (awaitedTokens: number) => {
      device.write(logits, values);
      const position = 3 + awaitedTokens;
      return (await rowSampler.sample(logits, [{ sampling, position, awaitedTokens }])).tokens[0];
    };
    expect(await drawWith(1)).not.toBe(best);
    expect(await drawWith(2)).toBe(best);
    const penalized = sequence({ temperature: 0, repetitionPenalty: 2 });
    expect(penalized.looksBack).toBe(true);
    const row = { sampling: penalized, position: 4, awaitedTokens: 1 };
    const draw = await rowSampler.start(logits, [row]);
    expect((await draw.take()).failures.get(0)).toMatchObject({
      message: "Cannot look back at tokens that are not sampled yet",
    });
  });
});
