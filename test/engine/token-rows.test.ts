import { expect, test } from "vitest";
import type { SequenceOutput } from "../../src/engine/protocol/protocol.ts";
import { forEachRow, packOutputs, plainOutput } from "../../src/engine/protocol/token-rows.ts";

const oneToken = (key: number, tokenId: number, index = 0): SequenceOutput =>
  plainOutput(key, index, [tokenId], 2.5 * tokenId);

function unpacked(rows: Float64Array): SequenceOutput[] {
  const outputs: SequenceOutput[] = [];
  forEachRow(rows, (key, index, tokenId, held) =>
    outputs.push(plainOutput(key, index, [tokenId], held)),
  );
  return outputs;
}

const prompt = { cachedTokens: 3, queueSeconds: 0, promptLogprobs: null, promptLogits: null };

test("one token and nothing else crosses as numbers, and comes out as it went in", () => {
  const all = [oneToken(7, 0), oneToken(2 ** 40, 128_255, 3)];
  const { outputs, tokenRows } = packOutputs(all);
  expect(outputs).toEqual([]);
  expect(unpacked(structuredClone(tokenRows))).toEqual(all);
});

test.for([
  ["a finish reason", { finishReason: "stop" }],
  ["a stop reason", { stopReason: 0 }],
  ["log probabilities", { logprobs: [] }],
  ["a beam's score", { beam: { score: 0, logprob: 0 } }],
  ["the prompt's results", { prompt }],
  ["several tokens", { tokenIds: [1, 2] }],
  ["no token", { tokenIds: [] }],
] as const)("what brings %s crosses as it is", ([, more]) => {
  const plain = oneToken(1, 5);
  const special: SequenceOutput = { ...oneToken(2, 6), ...more };
  const { outputs, tokenRows } = packOutputs([plain, special]);
  expect(outputs).toEqual([special]);
  expect(unpacked(tokenRows)).toEqual([plain]);
  expect(tokenRows.buffer.byteLength).toBe(tokenRows.byteLength);
});
