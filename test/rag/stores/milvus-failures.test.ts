/** What a Milvus server answers that Milvus Lite never does, and what happens when it goes away. */
import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, afterEach, beforeAll, describe, expect, it } from "vitest";
import { openStore, type VectorStore } from "#rag/stores";
import { parseMilvusAddress } from "../../../src/rag/stores/milvus-address.ts";
import { MilvusStore } from "../../../src/rag/stores/milvus-store.ts";
import { certificate } from "../../support/certificate.ts";
import { GrpcFront, type PlantedAnswer, protobuf } from "../../support/grpc-front.ts";
import { byText, byVector, chunkOf, DIMENSIONS } from "./corpus-cases.ts";
import { MilvusLite, noMilvus } from "./milvus-lite.ts";

const SPEC = { dimensions: DIMENSIONS, embedder: "embedder-1" };
const chunk = chunkOf({ document: "a" });
const everyChunk = byVector([1, 0, 0, 0], { limit: 100 });

/** A `Status` of Milvus within an answer, which is where nearly all have it. */
function refusal(code: number, reason: string): PlantedAnswer {
  const status = protobuf([
    [1, 1],
    [2, reason],
    [3, code],
  ]);
  return { type: "message", bytes: protobuf([[1, status]]) };
}

describe.skipIf(noMilvus !== null)(`Milvus${noMilvus === null ? "" : ` (${noMilvus})`}`, () => {
  let lite: MilvusLite;
  let front: GrpcFront;
  const open: VectorStore[] = [];
  beforeAll(async () => {
    lite = await MilvusLite.start();
    front = await GrpcFront.start(lite.port);
  });
  afterEach(async () => {
    front.plant = () => null;
    for (const store of open.splice(0)) await store.close();
  });
  afterAll(async () => {
    await front?.close();
    await lite?.close();
  });

  /** A store behind the front. */
  async function opened(query = ""): Promise<VectorStore> {
    const store = await openStore(`milvus://127.0.0.1:${front.port}${query}`);
    open.push(store);
    return store;
  }

  let corpora = 0;
  async function withCorpus(store: VectorStore): Promise<string> {
    const name = `failing-${corpora++}`;
    await store.create({ name, ...SPEC });
    await store.upsert(name, [chunk]);
    return name;
  }

  const refusals: readonly (readonly [string, PlantedAnswer, RegExp])[] = [
    [
      "a wrong token",
      { type: "status", code: 16, reason: "UNAUTHENTICATED: auth check failure" },
      /check user, password or token/,
    ],
    [
      "a user without the right",
      { type: "status", code: 7, reason: "PrivilegeInsert: permission deny" },
      /give this user the right/,
    ],
    ["a full server", refusal(9, "quota exceeded[reason=disk quota exceeded]"), /make room/],
    ["a read-only server", refusal(9, "deny to write the collection"), /allow writes/],
    ["a limit of requests", refusal(8, "request is rejected by grpc RateLimiter"), /limit/],
    ["an answer that says nothing", { type: "message", bytes: new Uint8Array() }, /log|status/],
  ];
  it.each(refusals)(
    "[RG19] %s is told with the remedy, and nothing is lost",
    async (_, answer, remedy) => {
      const store = await opened("?timeoutMs=5000");
      const name = await withCorpus(store);
      front.plant = (method) => (method === "Upsert" ? answer : null);
      const other = chunkOf({ document: "b" });
      await expect(store.upsert(name, [other])).rejects.toMatchObject({
        code: "STORE_UNAVAILABLE",
        message: expect.stringMatching(remedy),
      });
      expect(await store.search(name, everyChunk)).toHaveLength(1);
      front.plant = () => null;
      await store.upsert(name, [other]);
      expect(await store.search(name, everyChunk)).toHaveLength(2);
    },
  );

  it("[RG19] no server is told at opening, with its address and without its password", async () => {
    const failing = openStore("milvus://user:geheim@127.0.0.1:1/db?timeoutMs=3000");
    await expect(failing).rejects.toMatchObject({
      code: "STORE_UNAVAILABLE",
      message: expect.stringMatching(
        /milvus:\/\/127\.0\.0\.1:1\/db.*start it or check its address/,
      ),
    });
    await expect(failing).rejects.not.toMatchObject({
      message: expect.stringContaining("geheim"),
    });
  });

  it("[RG19] a database that is not there is told at opening", async () => {
    await expect(openStore(`${lite.url}/nowhere`)).rejects.toMatchObject({
      code: "STORE_UNAVAILABLE",
      message: expect.stringMatching(/make the database first/),
    });
  });

  it("[RG20] a server that does not answer is given up after the deadline", async () => {
    const store = await opened("?timeoutMs=300");
    const name = await withCorpus(await opened());
    for (const [method, call] of [
      ["Search", () => store.search(name, everyChunk)],
      ["Upsert", () => store.upsert(name, [chunkOf({ document: "c" })])],
      ["Query", () => store.documents(name)],
    ] as const) {
      await store.count(name, null);
      front.plant = (asked) => (asked === method ? { type: "silence" } : null);
      const start = performance.now();
      await expect(call()).rejects.toMatchObject({
        code: "STORE_UNAVAILABLE",
        message: expect.stringMatching(/raise timeoutMs/),
      });
      expect(performance.now() - start).toBeLessThan(5000);
      front.plant = () => null;
      await call();
    }
  });

  it("[RG20] a server that is killed and started again has all, and the same call succeeds", async () => {
    const own = await MilvusLite.start();
    const store = await openStore(`${own.url}?timeoutMs=5000`);
    try {
      const name = await withCorpus(store);
      await own.stop();
      const other = chunkOf({ document: "b" });
      await expect(store.upsert(name, [other])).rejects.toMatchObject({
        code: "STORE_UNAVAILABLE",
        message: expect.stringMatching(/start it or check its address, and try again/),
      });
      await own.restart();
      await expect
        .poll(() => store.upsert(name, [other]).then(() => "stored", String), { timeout: 10_000 })
        .toBe("stored");
      expect(await store.search(name, everyChunk)).toHaveLength(2);
    } finally {
      await store.close();
      await own.close();
    }
  });

  it("[RG4] a corpus that another process removed is unknown, whatever the server says", async () => {
    const [store, other] = [await opened(), await opened()];
    const name = await withCorpus(store);
    await other.drop(name);
    const unknown = { code: "CORPUS_INVALID", message: expect.stringMatching(/create it first/) };
    for (const call of [
      () => store.search(name, everyChunk),
      () => store.search(name, byText("words")),
      () => store.count(name, null),
      () => store.upsert(name, [chunk]),
      () => store.documents(name),
    ]) {
      await expect(call()).rejects.toMatchObject(unknown);
    }
    await store.create({ name, ...SPEC });
    await store.upsert(name, [chunk]);
    expect(await other.search(name, everyChunk)).toHaveLength(1);
  });

  it("[RG18] another program's collection under our name is refused and left alone", async () => {
    const store = await opened();
    const spec = { name: "mine", dimensions: 7, embedder: "embedder-x" };
    await store.create(spec);
    const { MilvusClient } = await import("@zilliz/milvus2-sdk-node");
    const client = new MilvusClient({ address: `127.0.0.1:${lite.port}` });
    try {
      const { data } = await client.listCollections();
      const name = data.map((one) => one.name).find((one) => one.startsWith("perigee_7_")) ?? "";
      await client.dropCollection({ collection_name: name });
      await client.createCollection({
        collection_name: name,
        fields: [
          { name: "id", data_type: "Int64", is_primary_key: true },
          { name: "vector", data_type: "FloatVector", dim: 3 },
        ],
      });
      const fresh = await opened();
      await expect(fresh.create(spec)).rejects.toMatchObject({
        code: "CORPUS_INVALID",
        message: expect.stringMatching(/must have a field key.*rename or drop the collection/),
      });
      expect(await fresh.corpora()).not.toContainEqual(expect.objectContaining({ name: "mine" }));
      const has = await client.hasCollection({ collection_name: name });
      expect(has.value).toBe(true);
      await client.dropCollection({ collection_name: name });
    } finally {
      await client.closeConnection();
    }
  });

  it("[RG21] user, password, token and database reach the server", async () => {
    const heads: unknown[] = [];
    front.plant = (method, headers) => {
      if (method === "ListCollections" || method === "ShowCollections") {
        heads.push([headers.authorization, headers.dbname]);
      }
      return null;
    };
    await openStore(`milvus://ada:p%40ss@127.0.0.1:${front.port}/default`).then((one) =>
      one.close(),
    );
    await openStore(`milvus://127.0.0.1:${front.port}?token=key-1`).then((one) => one.close());
    const encoded = (text: string) => Buffer.from(text).toString("base64");
    expect(heads).toContainEqual([encoded("ada:p@ss"), "default"]);
    expect(heads).toContainEqual([encoded("key-1"), expect.anything()]);
  });

  it("[RG22] what the server lacks is told", async () => {
    const plain = await opened();
    expect(plain.info).toMatchObject({
      kind: "milvus",
      location: `milvus://127.0.0.1:${front.port}`,
      version: expect.stringMatching(/lite-3\.2\.2/),
      text: "server",
    });
    const user = await opened("?token=abc&consistency=Bounded");
    expect(user.info.notes.join("; ")).toMatch(/no users.*consistency=Bounded/);
    expect(user.info.location).not.toContain("abc");
  });

  it("[RG22] a server without BM25 gets weights of words from here", async () => {
    const version = protobuf([
      [1, new Uint8Array()],
      [2, "v2.4.17"],
    ]);
    front.plant = (method) =>
      method === "GetVersion" ? { type: "message", bytes: version } : null;
    const store = await opened();
    expect(store.info).toMatchObject({ version: "v2.4.17", text: "own" });
    const name = "own-words";
    await store.create({ name, dimensions: 5, embedder: "embedder-own" });
    const texts = ["common rare", "common other", "common thing", "common last", "", "東京水道局"];
    await store.upsert(
      name,
      texts.map((text, index) =>
        chunkOf({ document: "a", index, text, vector: [1, index, 0, 0, 0] }),
      ),
    );
    const found = async (text: string) =>
      (await store.search(name, byText(text))).map((hit) => hit.chunk.text);
    expect((await found("common rare"))[0]).toBe("common rare");
    expect(await found("common rare")).toHaveLength(4);
    expect(await found("水道")).toEqual(["東京水道局"]);
    expect(await found("absent")).toEqual([]);
    const both = { ...byVector([1, 0, 0, 0, 0], { limit: 2 }), text: "rare" };
    expect((await store.search(name, both))[0]?.chunk.text).toBe("common rare");
  });

  const tls = certificate();
  it.skipIf(tls === null)("[RG21] TLS is used where it is asked for, and checked", async () => {
    const secure = await GrpcFront.start(lite.port, tls);
    const folder = await mkdtemp(join(tmpdir(), "perigee-ca-"));
    try {
      const authority = join(folder, "ca.pem");
      await writeFile(authority, tls?.cert ?? "");
      const url = `milvus://127.0.0.1:${secure.port}?timeoutMs=3000`;
      const store = await openStore(`${url}&tls=true&ca=${encodeURIComponent(authority)}`);
      expect(await store.corpora()).toBeInstanceOf(Array);
      await store.close();
      for (const settings of ["", "&tls=true"]) {
        await expect(openStore(`${url}${settings}`)).rejects.toMatchObject({
          code: "STORE_UNAVAILABLE",
        });
      }
    } finally {
      await secure.close();
      await rm(folder, { recursive: true, force: true });
    }
  });
});

it("[RG23] without the client's package the error names the command that installs it", async () => {
  const missing = () => Promise.reject(new Error("Cannot find package"));
  await expect(
    MilvusStore.open(parseMilvusAddress("milvus://localhost"), missing),
  ).rejects.toMatchObject({
    code: "STORE_UNAVAILABLE",
    message: expect.stringMatching(/npm i @zilliz\/milvus2-sdk-node@3\.0\.6$/),
  });
});
