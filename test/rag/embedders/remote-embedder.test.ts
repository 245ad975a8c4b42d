import { fileURLToPath } from "node:url";
import { afterEach, describe, expect, test, vi } from "vitest";
import { openEmbedder, type RemoteOptions } from "#rag/embedders";
import { type Answer, embeddingServer, rightAnswer, vectorOf } from "./embedding-server.ts";
import { expectVectors } from "./recorded-layout.ts";

const quick = { retryMs: 1, deadlineMs: 20_000 };

function open(url: string, remote: Partial<RemoteOptions> = {}, more = {}) {
  return openEmbedder(url, { remote: { model: "m", ...quick, ...remote }, ...more });
}

afterEach(() => vi.unstubAllEnvs());

describe("[RG72] vectors of a server with OpenAI's API", () => {
  test("have length 1, and are in the order of the texts", async () => {
    const server = await embeddingServer();
    await using embedder = await open(server.url);
    expect(embedder.dimensions).toBe(4);
    const texts = Array.from({ length: 100 }, (_, i) => `text ${i}`);
    const vectors = await embedder.embedDocuments(texts);
    expectVectors(
      vectors,
      texts.map((text) => vectorOf(text)),
    );
    expect(Math.hypot(...(vectors[7] ?? []))).toBeCloseTo(1, 6);
    expect(server.seen.every(({ path }) => path === "/v1/embeddings")).toBe(true);
    // The probe, then batches of 32.
    expect(server.seen.map(({ body }) => body.input.length).sort()).toEqual([1, 32, 32, 32, 4]);
    expect(await embedder.embedQueries([])).toEqual([]);
  });

  test("come in base64 as well", async () => {
    const server = await embeddingServer(({ body }) => ({
      body: {
        data: body.input.map((text, index) => ({
          index,
          embedding: Buffer.from(Float32Array.from(vectorOf(text)).buffer).toString("base64"),
        })),
      },
    }));
    await using embedder = await open(server.url);
    expectVectors(await embedder.embedQueries(["abc"]), [vectorOf("abc")]);
  });

  test("batches have bounds of texts and bytes, and so have requests at once", async () => {
    const server = await embeddingServer(async (request) => {
      await new Promise((resolve) => setImmediate(resolve));
      return rightAnswer(request);
    });
    const bounds = { batchTexts: 3, batchBytes: 20, requestsAtOnce: 2 };
    await using embedder = await open(server.url, bounds);
    const texts = [
      "12345678",
      "12345678",
      "12345678",
      "123456789012345678901234",
      "a",
      "b",
      "c",
      "d",
    ];
    await embedder.embedDocuments(texts);
    const sizes = server.seen.slice(1).map(({ body }) => body.input.length);
    expect(sizes.sort()).toEqual([1, 1, 1, 2, 3]);
    expect(server.load.most).toBeLessThanOrEqual(2);
  });

  test("fewer dimensions are asked for, and must come", async () => {
    const server = await embeddingServer();
    await using embedder = await open(server.url, {}, { dimensions: 3 });
    expect(embedder.dimensions).toBe(3);
    expect(server.seen[0]?.body.dimensions).toBe(3);
    await expect(open(server.url, {}, { dimensions: 0 })).rejects.toMatchObject({
      code: "INVALID_ARGUMENT",
    });
    const deaf = await embeddingServer(({ body }) =>
      rightAnswer({ path: "", authorization: undefined, body: { ...body, dimensions: 9 } }),
    );
    await expect(open(deaf.url, {}, { dimensions: 3 })).rejects.toMatchObject({
      code: "NETWORK",
      message: expect.stringContaining("vectors of 3 dimensions, current value is 9"),
    });
  });

  test("prompts that go with the model's name are put before texts", async () => {
    const server = await embeddingServer();
    await using embedder = await open(server.url, { model: "intfloat/e5-small-v2" });
    await embedder.embedQueries(["q"]);
    await embedder.embedDocuments(["d"]);
    expect(server.seen.slice(1).map(({ body }) => body.input)).toEqual([
      ["query: q"],
      ["passage: d"],
    ]);
  });
});

describe("[RG73] texts for a server", () => {
  test("are cut off at tokensMax by an estimate, between characters", async () => {
    const server = await embeddingServer();
    await using embedder = await open(server.url, { tokensMax: 10 });
    expect(await embedder.countTokens(["", "abc", "\u{1f600}".repeat(3)])).toEqual([2, 3, 6]);
    await embedder.embedDocuments(["\u{1f600}".repeat(500)]);
    const [sent = ""] = server.seen.at(-1)?.body.input ?? [];
    expect(sent).toMatch(/^\u{1f600}+$/u);
    expect(Buffer.byteLength(sent)).toBeLessThanOrEqual(24);
    expect(Buffer.byteLength(sent)).toBeGreaterThanOrEqual(16);
  });

  test("are counted and cut by a tokenizer, where one is given", async () => {
    const server = await embeddingServer();
    const tokenizer = fileURLToPath(new URL("../../../models/pocket", import.meta.url));
    await using embedder = await open(server.url, { tokensMax: 12, tokenizer });
    const [one = 0, two = 0] = await embedder.countTokens(["A cache is", "A cache is A cache is"]);
    expect(two).toBeGreaterThan(one);
    await embedder.embedDocuments(["A cache is a place. ".repeat(200)]);
    const [count = 0] = await embedder.countTokens(server.seen.at(-1)?.body.input ?? []);
    expect(count).toBeLessThanOrEqual(12);
    expect(count).toBeGreaterThan(6);
  });
});

describe("[RG74] a server that is busy or broken", () => {
  const busy: readonly (readonly [string, Answer | null])[] = [
    ["429", { status: 429, headers: { "retry-after": "0" }, body: { error: { message: "slow" } } }],
    ["503", { status: 503, body: "down" }],
    ["500", { status: 500, body: "" }],
    ["a closed connection", null],
  ];
  test.each(busy)("is asked again after %s", async (_, first) => {
    const server = await embeddingServer((request, number) =>
      number === 2 ? first : rightAnswer(request),
    );
    await using embedder = await open(server.url);
    expect(await embedder.embedQueries(["a"])).toHaveLength(1);
    expect(server.seen).toHaveLength(3);
  });

  test("is asked so many times, then its words are told", async () => {
    const server = await embeddingServer(() => ({
      status: 429,
      body: { error: { message: "too many\n requests" } },
    }));
    await expect(open(server.url, { attemptsMax: 3 })).rejects.toMatchObject({
      code: "NETWORK",
      message: expect.stringMatching(/answered 429: too many requests, after 3 attempts/),
    });
    expect(server.seen).toHaveLength(3);
  });

  test("that asks to wait beyond the deadline is not waited for", async () => {
    const server = await embeddingServer(() => ({
      status: 429,
      headers: { "retry-after": "3600" },
      body: {},
    }));
    await expect(open(server.url, { deadlineMs: 5_000 })).rejects.toMatchObject({
      code: "NETWORK",
      message: expect.stringContaining("after 1 attempts"),
    });
  });

  test("that never answers ends with the deadline", async () => {
    const server = await embeddingServer(() => new Promise(() => {}));
    await expect(open(server.url, { deadlineMs: 50 })).rejects.toMatchObject({
      code: "NETWORK",
      message: expect.stringContaining("no answer within 50 ms"),
    });
  });

  test("ends its callers with their signal's reason, also while they wait", async () => {
    const stop = new AbortController();
    const server = await embeddingServer((request, number) => {
      if (number === 1) return rightAnswer(request);
      stop.abort(new Error("enough"));
      return { status: 429, headers: { "retry-after": "20" }, body: {} };
    });
    await using embedder = await open(server.url);
    const asked = embedder.embedQueries(["a"], { signal: stop.signal });
    await expect(asked).rejects.toThrow("enough");
  });

  test.each([
    [401, "UNAUTHORIZED"],
    [403, "UNAUTHORIZED"],
    [404, "MODEL_NOT_FOUND"],
    [400, "INVALID_ARGUMENT"],
    [418, "NETWORK"],
  ])("%i is not tried again: %s", async (status, code) => {
    const server = await embeddingServer(() => ({ status, body: { error: "no" } }));
    await expect(open(server.url)).rejects.toMatchObject({
      code,
      message: expect.stringContaining(`answered ${status}: no`),
    });
    expect(server.seen).toHaveLength(1);
  });
});

describe("[RG75] an answer is checked before it is used", () => {
  const one = { index: 0, embedding: [1, 2] };
  const cases: readonly (readonly [string, unknown, string])[] = [
    ["no JSON", "<html>", "no JSON"],
    ["no list", { data: {} }, "no list"],
    ["null", "null", "no list"],
    ["fewer vectors", { data: [] }, "1 vectors, current value is 0"],
    ["an index of another text", { data: [{ ...one, index: 1 }] }, "each index once"],
    ["an empty vector", { data: [{ index: 0, embedding: [] }] }, "finite numbers"],
    ["words", { data: [{ index: 0, embedding: ["a"] }] }, "finite numbers"],
    ["infinity", '{"data":[{"index":0,"embedding":[1e999]}]}', "finite numbers"],
    ["half a number in base64", { data: [{ index: 0, embedding: "AAAA" }] }, "finite numbers"],
    ["too many dimensions", { data: [{ embedding: Array(16_385).fill(0) }] }, "16384"],
    ["too many bytes", `"${"x".repeat(2 ** 20)}"`, "at most 589824 bytes"],
  ];
  test.each(cases)("%s", async (_, body, words) => {
    const server = await embeddingServer(() => ({ body }));
    await expect(open(server.url)).rejects.toMatchObject({
      code: "NETWORK",
      message: expect.stringContaining(words),
    });
  });

  test("a later answer has the dimensions of the first", async () => {
    const server = await embeddingServer((request, number) =>
      rightAnswer({ ...request, body: { ...request.body, dimensions: number } }),
    );
    await using embedder = await open(server.url);
    await expect(embedder.embedQueries(["a"])).rejects.toMatchObject({ code: "NETWORK" });
  });

  test("a redirection is not followed: the key stays with its server", async () => {
    const other = await embeddingServer();
    const server = await embeddingServer(() => ({
      status: 307,
      headers: { location: `${other.url}/embeddings` },
      body: {},
    }));
    await expect(open(server.url, { apiKey: "k", attemptsMax: 1 })).rejects.toMatchObject({
      code: "NETWORK",
    });
    expect(other.seen).toEqual([]);
  });
});

describe("[RG76] an address, a model and a key", () => {
  test("the key is the option's, else the environment's, else none", async () => {
    const server = await embeddingServer();
    const sent = async (remote: Partial<RemoteOptions>) => {
      await (await open(server.url, remote)).close();
      return server.seen.at(-1)?.authorization;
    };
    expect(await sent({})).toBeUndefined();
    vi.stubEnv("PERIGEE_EMBEDDER_API_KEY", "of the environment");
    vi.stubEnv("OTHER_KEY", "other");
    expect(await sent({})).toBe("Bearer of the environment");
    expect(await sent({ apiKeyVariable: "OTHER_KEY" })).toBe("Bearer other");
    expect(await sent({ apiKey: "own" })).toBe("Bearer own");
  });

  test.each(["https://user:word@host/v1", "http://", "https://host/v1#part"])(
    "%s is no address",
    async (address) => {
      const opening = open(address);
      await expect(opening).rejects.toMatchObject({ code: "INVALID_ARGUMENT", param: "address" });
      await expect(opening).rejects.not.toThrow("word@");
    },
  );

  test("a model must be named, and numbers must be right", async () => {
    await expect(openEmbedder("https://host/v1")).rejects.toMatchObject({ param: "remote.model" });
    for (const [name, value] of [
      ["tokensMax", 2],
      ["batchTexts", 0],
      ["deadlineMs", Number.NaN],
      ["attemptsMax", 1.5],
    ] as const) {
      await expect(open("https://host/v1", { [name]: value })).rejects.toMatchObject({
        param: name,
      });
    }
  });

  test("fingerprints tell addresses, models, prompts and limits apart", async () => {
    const [one, two] = [await embeddingServer(), await embeddingServer()];
    const fingerprint = async (url: string, remote = {}, more = {}) => {
      await using embedder = await open(url, remote, more);
      return embedder.fingerprint;
    };
    const all = [
      await fingerprint(one.url),
      await fingerprint(two.url),
      await fingerprint(one.url, { model: "n" }),
      await fingerprint(one.url, { tokensMax: 99 }),
      await fingerprint(one.url, {}, { prompts: { query: "q " } }),
      await fingerprint(one.url, {}, { dimensions: 3 }),
    ];
    expect(new Set(all).size).toBe(all.length);
    expect(await fingerprint(`${one.url}/`)).toBe(all[0]);
  });
});
