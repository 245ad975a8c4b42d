import { afterAll, describe, expect, test } from "vitest";
import { uniformAt } from "#base";
import { type Device, ReferenceDevice } from "#devices";
import { candidatesOfRow, Sampler } from "#sampling";

const vocabularySize = 50;
const rowsMax = 6;
const device: Device = new ReferenceDevice();
const sampler = new Sampler({ device, rowsMax, vocabularySize });
const logits = device.allocate("f32", [rowsMax, vocabularySize]);
const values = Float32Array.from(
  { length: rowsMax * vocabularySize },
  (_, i) => 6 * uniformAt({ low: 9, high: 0 }, i) - 3,
);
device.write(logits, values);

afterAll(() => {
  sampler.dispose();
  device.dispose();
});

/** Likeliest first, from the definition of log-softmax. */
function likeliest(row: number, count: number): { tokenId: number; logprob: number }[] {
  const own = values.slice(row * vocabularySize, (row + 1) * vocabularySize);
  const sum = Math.log(own.reduce((total, logit) => total + Math.exp(logit), 0));
  return Array.from(own, (logit, tokenId) => ({ tokenId, logprob: logit - sum }))
    .sort((a, b) => b.logprob - a.logprob || a.tokenId - b.tokenId)
    .slice(0, count);
}

async function expectCandidates(rows: readonly number[], wanted: number): Promise<void> {
  const { count, tokenIds, logprobs } = await sampler.topCandidates(logits, rows, wanted);
  expect(count).toBe(Math.min(wanted, vocabularySize));
  const expected = rows.flatMap((row) => likeliest(row, count));
  expect(Array.from(tokenIds)).toEqual(expected.map(({ tokenId }) => tokenId));
  expected.forEach(({ logprob }, place) => {
    expect(logprobs[place]).toBeCloseTo(logprob, 4);
  });
}

describe("topCandidates", () => {
  test("gives each row's likeliest tokens, in the order of the rows asked for", async () => {
    await expectCandidates([0, 1, 2], 8);
    await expectCandidates([4], 8);
    await expectCandidates([1, 2, 5, 3], 8);
  });

  test("takes more and fewer candidates in turn, up to the whole vocabulary", async () => {
    await expectCandidates([0, 3], 4);
    await expectCandidates([0, 3], 30);
    await expectCandidates([0, 3], 5);
    await expectCandidates([2], 1000);
  });

  test("each row can be looked at alone", async () => {
    const both = await sampler.topCandidates(logits, [2, 5], 6);
    const { count, tokenIds } = candidatesOfRow(both, 1);
    expect(count).toBe(6);
    expect(Array.from(tokenIds)).toEqual(likeliest(5, 6).map(({ tokenId }) => tokenId));
    expect(() => candidatesOfRow(both, 2)).toThrow("row 2");
  });

  test("leaves the logits as they are", async () => {
    await sampler.topCandidates(logits, [0, 1], 3);
    expect(await device.readF32(logits)).toEqual(values);
  });

  test("refuses more rows than a step has", async () => {
    const rows = Array.from({ length: rowsMax + 1 }, (_, row) => row);
    await expect(sampler.topCandidates(logits, rows, 1)).rejects.toThrow("room for fewer");
  });
});
