import { request as httpRequest } from "node:http";
import { expect, test } from "vitest";
import { closeRagServers, type RagServer, serveRag, textFile } from "../../support/rag-server.ts";
import { serveToy } from "../../support/toy-server.ts";

closeRagServers();

const quick = { pollIntervalMs: 20 };

test("[RG100] files and stores have the fields of the API", async () => {
  const { client } = await serveRag({ parts: { nowSeconds: () => 1_700_000_000 } });
  const file = await client.files.create({
    ...{ file: textFile("../a b.md", "# A\n\ntext"), purpose: "assistants" },
    expires_after: { anchor: "created_at", seconds: 3600 },
  });
  expect(file).toEqual({
    ...{ id: expect.stringMatching(/^file-[0-9a-f]{24}$/), object: "file", bytes: 9 },
    ...{ created_at: 1_700_000_000, expires_at: 1_700_003_600, filename: "a b.md" },
    ...{ purpose: "assistants", status: "processed", status_details: null },
  });
  expect(await client.files.retrieve(file.id)).toEqual(file);
  const store = await client.vectorStores.create({
    ...{ name: "s", description: "d", file_ids: [file.id], metadata: { a: "b" } },
    expires_after: { anchor: "last_active_at", days: 2 },
    chunking_strategy: {
      type: "static",
      static: { max_chunk_size_tokens: 200, chunk_overlap_tokens: 50 },
    },
  });
  expect(store).toEqual({
    ...{ id: expect.stringMatching(/^vs_[0-9a-f]{24}$/), object: "vector_store", name: "s" },
    ...{ created_at: 1_700_000_000, last_active_at: 1_700_000_000, description: "d" },
    ...{ usage_bytes: 0, status: "in_progress", metadata: { a: "b" }, expires_at: 1_700_172_800 },
    file_counts: { in_progress: 1, completed: 0, failed: 0, cancelled: 0, total: 1 },
    expires_after: { anchor: "last_active_at", days: 2 },
  });
  const member = await client.vectorStores.files.poll(store.id, file.id, quick);
  expect(member).toEqual({
    ...{ id: file.id, object: "vector_store.file", created_at: 1_700_000_000, attributes: {} },
    ...{ status: "completed", last_error: null, vector_store_id: store.id },
    usage_bytes: expect.any(Number),
    chunking_strategy: {
      type: "static",
      static: { max_chunk_size_tokens: 200, chunk_overlap_tokens: 50 },
    },
  });
  const changed = await client.vectorStores.update(store.id, { name: "t", expires_after: null });
  expect(changed).toMatchObject({ name: "t", expires_after: null, metadata: { a: "b" } });
  const listed = await client.vectorStores.files.list(store.id, { filter: "completed" });
  expect(listed.data).toEqual([member]);
});

test("[RG100] attributes, filters and options of ranking decide what is found", async () => {
  const { client } = await serveRag();
  const store = await client.vectorStores.create({});
  const texts = ["The Orlen bridge of 1931", "The Kesset bridge of 1950", "A museum with rooms"];
  const files = await Promise.all(
    texts.map((text, n) =>
      client.files.create({ file: textFile(`${n}.txt`, text), purpose: "assistants" }),
    ),
  );
  const batch = await client.vectorStores.fileBatches.createAndPoll(
    store.id,
    { files: files.map(({ id }, n) => ({ file_id: id, attributes: { n, odd: n % 2 === 1 } })) },
    quick,
  );
  expect(batch.file_counts.completed).toBe(3);
  const names = async (more: object) => {
    const body = { query: "bridge", ...more };
    const { data } = await client.vectorStores.search(store.id, body as { query: string });
    return data.map(({ filename }) => filename);
  };
  expect((await names({})).slice(0, 2).sort()).toEqual(["0.txt", "1.txt"]);
  expect(await names({ filters: { type: "eq", key: "odd", value: true } })).toEqual(["1.txt"]);
  const both = [
    { type: "gte", key: "n", value: 1 },
    { type: "ne", key: "odd", value: true },
  ];
  expect(await names({ filters: { type: "and", filters: both } })).toEqual(["2.txt"]);
  expect(await names({ max_num_results: 1 })).toHaveLength(1);
  expect(await names({ ranking_options: { ranker: "none", score_threshold: 1 } })).toEqual([]);
  const near = await client.vectorStores.search(store.id, {
    ...{ query: ["Orlen", "museum rooms"], max_num_results: 2, rewrite_query: true },
    ranking_options: { ranker: "none" },
  });
  expect(near.data.map(({ filename }) => filename).sort()).toEqual(["0.txt", "2.txt"]);
  expect(near.data.every(({ score }) => score > 0 && score <= 1)).toBe(true);

  const first = files[0]?.id ?? "";
  const updated = await client.vectorStores.files.update(first, {
    ...{ vector_store_id: store.id, attributes: { odd: true } },
  });
  expect(updated).toMatchObject({ attributes: { odd: true } });
  await client.vectorStores.files.poll(store.id, first, quick);
  expect((await names({ filters: { type: "eq", key: "odd", value: true } })).sort()).toEqual([
    ...["0.txt", "1.txt"],
  ]);
});

test("[RG103] API keys are asked for, with uploads, too", async () => {
  const server = await serveRag({ server: { apiKey: ["secret"] } });
  for (const [method, path] of [
    ["POST", "/v1/files"],
    ["GET", "/v1/files"],
    ["POST", "/v1/vector_stores"],
    ["POST", "/v1/vector_stores/vs_1/search"],
  ]) {
    expect((await fetch(server.url + path, { method: method ?? "" })).status).toBe(401);
  }
  expect((await server.client.files.list()).data).toEqual([]);
});

async function upload(server: RagServer, body: string, headers: object): Promise<number> {
  return await new Promise((resolve, reject) => {
    const options = { method: "POST", headers: { ...headers } };
    const sent = httpRequest(`${server.url}/v1/files`, options, (answer) => {
      answer.resume();
      resolve(answer.statusCode ?? 0);
    });
    sent.on("error", reject);
    sent.end(body);
  });
}

test.for([0, 1])(
  "[RG103] uploads are bounded before they are read, %i threads",
  async (threads) => {
    const server = await serveRag({
      parts: { limits: { fileBytesMax: 1000, totalBytesMax: 70_000, filesMax: 2 } },
      server: { answeringThreads: threads },
    });
    const { client } = server;
    const big = { file: textFile("a.txt", "x".repeat(1001)), purpose: "assistants" } as const;
    await expect(client.files.create(big)).rejects.toMatchObject({ status: 413 });
    const type = { "content-type": "multipart/form-data; boundary=b" };
    expect(await upload(server, "--b--\r\n", type)).toBe(400);
    expect(await upload(server, "{}", { "content-type": "application/json" })).toBe(415);
    const file = await client.files.create({ ...big, file: textFile("a.txt", "x") });
    await client.files.create({ ...big, file: textFile("b.txt", "x") });
    await expect(client.files.create({ ...big, file: textFile("c.txt", "x") })).rejects.toThrow(
      "--rag-files-max",
    );
    expect(await (await client.files.content(file.id)).text()).toBe("x");
    expect((await server.post("/v1/chat/completions", {})).status).toBe(400);
  },
);

/** What is wrong with a request, and what the refusal names. */
const wrong: readonly [path: string, body: object, words: string][] = [
  ["/v1/vector_stores", { metadata: { a: 1 } }, "metadata.a"],
  ["/v1/vector_stores", { metadata: pairs(17, "x") }, "metadata"],
  ["/v1/vector_stores", { file_ids: ["file-1"] }, "file-1"],
  ["/v1/vector_stores", { expires_after: { anchor: "created_at", days: 1 } }, "anchor"],
  ["/v1/vector_stores", { expires_after: { anchor: "last_active_at", days: 366 } }, "days"],
  ["/v1/vector_stores", { chunking_strategy: static_(50, 0) }, "max_chunk_size_tokens"],
  ["/v1/vector_stores", { chunking_strategy: static_(100, 51) }, "chunk_overlap_tokens"],
  ["/v1/vector_stores", { model: "x" }, "model"],
  ["/files", { file_id: "file-1", attributes: { "a b": 1 } }, "attributes"],
  ["/files", { file_id: "file-1", attributes: { path: "a" } }, "path"],
  ["/files", { file_id: "file-1", attributes: { a: null } }, "attributes.a"],
  ["/files", { file_id: "file-1", attributes: { a: "x".repeat(513) } }, "attributes.a"],
  ["/file_batches", {}, "file_ids"],
  ["/file_batches", { file_ids: ["a"], files: [{ file_id: "a" }] }, "file_ids"],
  ["/file_batches", { file_ids: new Array(2001).fill("a") }, "2000"],
  ["/search", { query: "" }, "query"],
  ["/search", { query: new Array(9).fill("a") }, "query"],
  ["/search", { query: "a", max_num_results: 51 }, "max_num_results"],
  ["/search", { query: "a", filters: deep(9) }, "levels"],
  ["/search", { query: "a", filters: { type: "or", filters: new Array(200).fill(eq()) } }, "128"],
  ["/search", { query: "a", filters: { ...eq(), key: "a b" } }, "keys"],
  ["/search", { query: "a", filters: { ...eq(), type: "in" } }, "list"],
  ["/search", { query: "a", filters: { ...eq(), type: "gt", value: true } }, "number"],
];

test("[RG105] requests with too much, or with wrong fields, are refused by name", async () => {
  const server = await serveRag();
  const { id } = await server.client.vectorStores.create({});
  for (const [path, body, words] of wrong) {
    const at = path.startsWith("/v1") ? path : `/v1/vector_stores/${id}${path}`;
    const answer = await server.post(at, body);
    expect([400, 404], words).toContain(answer.status);
    const { error } = (await answer.json()) as { error: { message: string } };
    expect(error.message).toContain(words);
  }
  expect((await server.client.vectorStores.list()).data.map((store) => store.id)).toEqual([id]);
});

function pairs(count: number, value: unknown): object {
  return Object.fromEntries(Array.from({ length: count }, (_, n) => [`k${n}`, value]));
}

function static_(size: number, overlap: number): object {
  const own = { max_chunk_size_tokens: size, chunk_overlap_tokens: overlap };
  return { type: "static", static: own };
}

function eq(): object {
  return { type: "eq", key: "a", value: 1 };
}

function deep(levels: number): object {
  return levels === 1 ? eq() : { type: "and", filters: [deep(levels - 1)] };
}

test("[RG100] what is not there is a 404 with its id, and a wrong method a 405", async () => {
  const { client, url } = await serveRag();
  await expect(client.files.retrieve("file-none")).rejects.toThrow("file-none");
  await expect(client.vectorStores.search("vs_none", { query: "a" })).rejects.toThrow("vs_none");
  const store = await client.vectorStores.create({});
  const inStore = { vector_store_id: store.id };
  await expect(client.vectorStores.files.retrieve("file-1", inStore)).rejects.toThrow("file-1");
  await expect(client.vectorStores.fileBatches.cancel("vsfb_1", inStore)).rejects.toThrow("vsfb_1");
  expect((await fetch(`${url}/v1/files`, { method: "DELETE" })).status).toBe(405);
  const plain = await serveToy();
  expect((await plain.get("/v1/files")).status).toBe(404);
  await plain.server.close();
});
