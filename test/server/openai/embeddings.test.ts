import { expect, test, vi } from "vitest";
import { json } from "../../support/json.ts";
import { closeToyServers, serveToy } from "../../support/toy-server.ts";

closeToyServers();

test("the official client, which asks for base64, gets the model's vectors", async () => {
  const { client, model } = await serveToy();
  const answer = await client.embeddings.create({ model: "toy", input: ["one", "two"] });
  const direct = await model.embed(["one", "two"]);
  expect(answer.data.map(({ index }) => index)).toEqual([0, 1]);
  answer.data.forEach(({ embedding }, i) => {
    expect(Array.from(embedding)).toEqual([...(direct[i]?.embedding ?? [])]);
  });
  expect(answer.usage).toEqual({ prompt_tokens: 6, total_tokens: 6 });
});

test.each(["float", "base64"])("a long list of vectors is written in turns (%s)", async (form) => {
  const { post, model } = await serveToy();
  const texts = Array.from({ length: 2048 }, (_, at) => `text ${at}`);
  const results = await model.embed(texts);
  // As long as real ones are: the toy's have eight numbers.
  const long = results.map(({ embedding, ...rest }) => ({
    ...rest,
    embedding: Float32Array.from({ length: 384 }, (_, at) => embedding[at % 8] ?? 0),
  }));
  let turn = 0;
  let immediate = setImmediate(function next() {
    turn += 1;
    immediate = setImmediate(next);
  });
  const turns = new Set<number>();
  const watched = long.map((result) => ({
    ...result,
    get embedding() {
      turns.add(turn);
      return result.embedding;
    },
  }));
  vi.spyOn(model, "embed").mockResolvedValue(watched);
  const answer = await json(post("/v1/embeddings", { input: texts, encoding_format: form }));
  clearImmediate(immediate);
  // 2,048 vectors of 384 numbers, 8,192 numbers a turn.
  expect(turns.size).toBe(94);
  expect(Object.keys(answer)).toEqual(["id", "object", "created", "model", "data", "usage"]);
  expect(answer.data).toHaveLength(2048);
  for (const [at, { embedding: wanted }] of long.entries()) {
    const { embedding, index, object } = answer.data?.[at] ?? {};
    expect([index, object]).toEqual([at, "embedding"]);
    const inBase64 = Buffer.from(wanted.buffer).toString("base64");
    expect(embedding).toEqual(form === "float" ? [...wanted] : inBase64);
  }
});

test("float and base64 are the same vector", async () => {
  const { post } = await serveToy();
  const [floats, base64] = await Promise.all(
    ["float", "base64"].map((encoding_format) =>
      json(post("/v1/embeddings", { input: "text", encoding_format })),
    ),
  );
  const bytes = Buffer.from(String(base64?.data?.[0]?.embedding), "base64");
  const decoded = Array.from({ length: 8 }, (_, i) => bytes.readFloatLE(i * 4));
  expect(decoded).toEqual(floats?.data?.[0]?.embedding);
});

test.for([
  ["token ids", [116, 101], 1],
  ["lists of token ids", [[116], [101]], 2],
] as const)("%s are inputs too", async ([, input, count]) => {
  const { post } = await serveToy();
  const answer = await json(post("/v1/embeddings", { input }));
  expect(answer.data).toHaveLength(count);
});

test("dimensions cuts the vector and brings it back to length 1", async () => {
  const { post } = await serveToy();
  const answer = await json(post("/v1/embeddings", { input: "some text", dimensions: 3 }));
  const vector = Object.values(answer.data?.[0]?.embedding ?? {}).map(Number);
  expect(vector).toHaveLength(3);
  expect(Math.hypot(...vector)).toBeCloseTo(1, 6);
});

test("truncate_prompt_tokens keeps the input's beginning, and what stands around it", async () => {
  const frame = { before: [1], after: [2] };
  const { post, model } = await serveToy({ frame });
  const embed = vi.spyOn(model, "embed");
  for (const [wanted, kept] of [
    [4, [1, 97, 98, 2]],
    [3, [1, 97, 2]],
    [8, [1, 97, 98, 99, 100, 101, 102, 2]],
    [-1, [1, 97, 98, 99, 100, 101, 102, 2]],
  ] as const) {
    const body = { input: "abcdef", truncate_prompt_tokens: wanted };
    expect((await post("/v1/embeddings", body)).status).toBe(200);
    expect(embed.mock.lastCall?.[0]).toEqual([{ promptTokenIds: kept }]);
  }
  const body = { input: "abcdef", truncate_prompt_tokens: 2 };
  const answer = await post("/v1/embeddings", body);
  expect((await json(answer)).error?.message).toContain("must be at least 3");
});

test.for([
  ["more dimensions than there are", { input: "a", dimensions: 9 }, "dimensions"],
  ["an unknown encoding", { input: "a", encoding_format: "hex" }, "encoding_format"],
  ["no input", {}, "input"],
  ["an empty list", { input: [] }, "input"],
  ["an unknown field", { input: "a", stream: true }, "stream"],
] as const)("%s is a 400 that names the field", async ([, body, param]) => {
  const { post } = await serveToy();
  const answer = await post("/v1/embeddings", body);
  expect(answer.status).toBe(400);
  expect((await json(answer)).error?.param).toBe(param);
});
