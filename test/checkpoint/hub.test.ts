import {
  existsSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from "node:fs";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { setFlagsFromString } from "node:v8";
import { runInNewContext } from "node:vm";
import { describe, expect, test } from "vitest";
import { listCachedModels, openCheckpoint, pullModel, resolveModel } from "#checkpoint";
import { COMMIT, startHub } from "./hub-server.ts";
import { scratchFolder } from "./scratch-folder.ts";

setFlagsFromString("--expose-gc");
const collect = runInNewContext("gc") as () => void;

const STALLED = { list: "/tree/", file: "model.safetensors" };

const NAME = "acme/tiny-llama";
const LLAMA = "test/fixtures/models/llama";
const weights = readFileSync(`${LLAMA}/model.safetensors`);

const FILES = {
  "README.md": Buffer.from("# tiny"),
  "config.json": readFileSync(`${LLAMA}/config.json`),
  "generation_config.json": readFileSync(`${LLAMA}/generation_config.json`),
  "model.safetensors": weights,
  "pytorch_model.bin": Buffer.from("pickle"),
  "onnx/config.json": Buffer.from("{}"),
};

async function setUp(files: Readonly<Record<string, Buffer>> = FILES) {
  const hub = await startHub(NAME, files);
  const cacheDir = scratchFolder();
  return { hub, cacheDir, options: { name: NAME, hubUrl: hub.url, cacheDir } };
}

describe("pulling a model", () => {
  test("brings what it needs into the shared cache, ready to open", async () => {
    const { cacheDir, options } = await setUp();
    const directory = await pullModel(options);
    expect(directory).toBe(join(cacheDir, "models--acme--tiny-llama", "snapshots", COMMIT));
    expect(readdirSync(directory).sort()).toEqual([
      ...["config.json", "generation_config.json", "model.safetensors"],
    ]);
    expect(readFileSync(join(cacheDir, "models--acme--tiny-llama/refs/main"), "utf8")).toBe(COMMIT);
    const checkpoint = openCheckpoint(directory);
    expect(checkpoint.tensors.size).toBeGreaterThan(10);
    checkpoint.close();
  });

  test("reports bytes of all files, up to the total", async () => {
    const { options } = await setUp();
    const reports: { doneBytes: number; totalBytes: number }[] = [];
    await pullModel({ ...options, onProgress: (progress) => reports.push(progress) });
    const last = reports.at(-1);
    expect(last?.doneBytes).toBe(last?.totalBytes);
    expect(last?.totalBytes).toBeGreaterThan(weights.length);
    const bytes = reports.map((report) => report.doneBytes);
    expect(bytes).toEqual([...bytes].sort((a, b) => a - b));
  });

  test("goes on where the connection was dropped", async () => {
    const { hub, options } = await setUp();
    hub.faults.dropsLeft = 5;
    const directory = await pullModel(options);
    expect(readFileSync(join(directory, "model.safetensors")).equals(weights)).toBe(true);
    const resumed = hub.log.filter((line) => /model\.safetensors bytes=[1-9]\d*-$/.test(line));
    expect(resumed.length).toBeGreaterThanOrEqual(5);
  });

  test("goes on where an earlier run stopped", async () => {
    const { hub, cacheDir, options } = await setUp();
    const stop = new AbortController();
    const onProgress = ({ file, doneBytes }: { file: string; doneBytes: number }) => {
      if (file === "model.safetensors" && doneBytes > 100_000) stop.abort();
    };
    const first = pullModel({ ...options, onProgress, signal: stop.signal });
    await expect(first).rejects.toMatchObject({ code: "ABORTED" });
    const blobs = join(cacheDir, "models--acme--tiny-llama/blobs");
    expect(readdirSync(blobs).some((name) => name.endsWith(".incomplete"))).toBe(true);
    await expect(resolveModel(NAME, { cacheDir })).rejects.toMatchObject({
      code: "MODEL_NOT_FOUND",
    });
    hub.log.length = 0;
    const directory = await pullModel(options);
    expect(readFileSync(join(directory, "model.safetensors")).equals(weights)).toBe(true);
    expect(hub.log.some((line) => /model\.safetensors bytes=[1-9]\d*-$/.test(line))).toBe(true);
  });

  test.for(["list", "file"] as const)(
    "ends with its signal where the server stalls in a %s, whatever was collected before",
    async (stalls) => {
      const { hub, options } = await setUp();
      hub.faults.stalls = stalls;
      const stop = new AbortController();
      const pulled = pullModel({ ...options, signal: stop.signal });
      const asked = () => hub.log.some((line) => line.includes(STALLED[stalls]));
      while (!asked()) await sleep(5);
      for (let round = 0; round < 20; round++) {
        await sleep(2);
        collect();
      }
      stop.abort();
      await expect(pulled).rejects.toMatchObject({ code: "ABORTED" });
    },
  );

  test("starts over on a server that knows no ranges", async () => {
    const { hub, cacheDir, options } = await setUp();
    hub.faults.rangeless = true;
    hub.faults.dropsLeft = 1;
    await pullModel(options);
    const path = join(cacheDir, "models--acme--tiny-llama/snapshots", COMMIT, "model.safetensors");
    expect(readFileSync(path).equals(weights)).toBe(true);
  });

  test("downloads nothing twice", async () => {
    const { hub, options } = await setUp();
    await pullModel(options);
    hub.log.length = 0;
    await pullModel(options);
    expect(hub.log.filter((line) => line.includes("/resolve/"))).toEqual([]);
  });

  test("takes one file when asked to", async () => {
    const { options } = await setUp({ "a.gguf": Buffer.from("GGUF"), "b.gguf": Buffer.from("x") });
    const path = await pullModel({ ...options, file: "a.gguf" });
    expect(readFileSync(path, "utf8")).toBe("GGUF");
    await expect(pullModel(options)).rejects.toThrow("pass --file with one of a.gguf, b.gguf");
    await expect(pullModel({ ...options, file: "c.gguf" })).rejects.toThrow("it has a.gguf");
  });

  test("takes the shards of an index and not the same weights twice", async () => {
    const { options } = await setUp({
      "config.json": Buffer.from("{}"),
      "model.safetensors.index.json": Buffer.from("{}"),
      "model-00001-of-00001.safetensors": Buffer.from("a"),
      "consolidated.safetensors": Buffer.from("b"),
      "pytorch_model.bin.index.json": Buffer.from("{}"),
    });
    const directory = await pullModel(options);
    expect(readdirSync(directory).sort()).toEqual([
      ...["config.json", "model-00001-of-00001.safetensors", "model.safetensors.index.json"],
    ]);
  });

  test("takes the configurations of sentence-transformers' modules, and no other subfolder", async () => {
    const { options } = await setUp({
      "config.json": Buffer.from("{}"),
      "model.safetensors": Buffer.from("a"),
      "1_Pooling/config.json": Buffer.from('{"pooling_mode_cls_token":true}'),
      "onnx/config.json": Buffer.from("{}"),
      "2_Dense/model.safetensors": Buffer.from("b"),
    });
    const directory = await pullModel(options);
    expect(readdirSync(directory).sort()).toEqual([
      "1_Pooling",
      "config.json",
      "model.safetensors",
    ]);
    expect(readFileSync(join(directory, "1_Pooling/config.json"), "utf8")).toContain("cls");
  });

  test("sends the token, and refuses one that cannot be right", async () => {
    const { hub, options } = await setUp();
    await pullModel({ ...options, token: "hf_secret" });
    expect(hub.authorization).toBe("Bearer hf_secret");
    const wrong = pullModel({ ...options, token: "secret" });
    await expect(wrong).rejects.toMatchObject({ code: "INVALID_ARGUMENT", param: "token" });
    await expect(wrong).rejects.not.toThrow(/"secret"|: secret/);
  });
});

describe("the token stays with the hub", () => {
  const token = "hf_secret";

  test("where files are sent from another host", async () => {
    const { hub, options } = await setUp();
    const other = await startHub(NAME, FILES);
    hub.faults.filesAt = other.url;
    const directory = await pullModel({ ...options, token });
    expect(readFileSync(join(directory, "model.safetensors")).equals(weights)).toBe(true);
    expect(hub.authorization).toBe("Bearer hf_secret");
    expect(other.log.some((line) => line.includes("model.safetensors"))).toBe(true);
    expect(other.authorizations).toEqual([]);
  });

  test("where the list of files goes on at another host", async () => {
    const { hub, options } = await setUp();
    const other = await startHub(NAME, FILES);
    hub.faults.nextPage = `${other.url}/api/models/${NAME}/tree/${COMMIT}`;
    await pullModel({ ...options, token });
    expect(other.log).toHaveLength(1);
    expect(other.authorizations).toEqual([]);
  });
});

describe("a hub that means harm", () => {
  test("cannot list pages for ever", async () => {
    const { hub, options } = await setUp();
    hub.faults.nextPage = `${hub.url}/api/models/${NAME}/tree/${COMMIT}`;
    hub.faults.listing = "[]";
    await expect(pullModel(options)).rejects.toThrow("at most 1000 pages");
  });

  test("cannot fill the memory with a list of files", async () => {
    const { hub, options } = await setUp();
    hub.faults.listing = `["${"x".repeat(33 * 2 ** 20)}"]`;
    await expect(pullModel(options)).rejects.toThrow("must have at most 33554432 bytes");
  });

  test("cannot promise more than the disk holds", async () => {
    const { hub, options } = await setUp();
    const oid = "a".repeat(40);
    const file = { type: "file", path: "model.safetensors", size: 2 ** 52, oid };
    hub.faults.listing = JSON.stringify([file]);
    const pull = pullModel(options);
    await expect(pull).rejects.toMatchObject({ code: "IO" });
    await expect(pull).rejects.toThrow("must have room for 4503599627370496 bytes");
  });

  test.each([-1, 1.5, null, "9"])("cannot name a file of %j bytes", async (size) => {
    const { hub, options } = await setUp();
    const file = { type: "file", path: "model.safetensors", size, oid: "a".repeat(40) };
    hub.faults.listing = JSON.stringify([file]);
    await expect(pullModel(options)).rejects.toMatchObject({ code: "UNSUPPORTED_MODEL" });
  });

  test.each(["file:///etc", "ftp://hub", "data:,", "nonsense"])("cannot be %s", async (hubUrl) => {
    const pull = pullModel({ name: NAME, hubUrl, cacheDir: scratchFolder() });
    await expect(pull).rejects.toMatchObject({ code: "INVALID_ARGUMENT", param: "hubUrl" });
  });
});

test("a download writes through no link that stands in its place", async () => {
  const { cacheDir, options } = await setUp();
  const directory = await pullModel(options);
  const repository = join(cacheDir, "models--acme--tiny-llama");
  const precious = join(cacheDir, "precious");
  writeFileSync(precious, "do not lose this");
  for (const name of readdirSync(join(repository, "blobs"))) {
    rmSync(join(repository, "blobs", name));
    symlinkSync(precious, join(repository, "blobs", `${name}.incomplete`));
  }
  rmSync(join(repository, "refs/main"));
  symlinkSync(precious, join(repository, "refs/main"));
  await pullModel(options);
  expect(readFileSync(precious, "utf8")).toBe("do not lose this");
  expect(readFileSync(join(directory, "model.safetensors")).equals(weights)).toBe(true);
});

describe("a pull that fails says what to do", () => {
  test.each([
    [401, "UNAUTHORIZED", "HF_TOKEN"],
    [403, "UNAUTHORIZED", "accept the model's terms"],
    [404, "MODEL_NOT_FOUND", "check the spelling"],
    [500, "NETWORK", "set HF_ENDPOINT"],
  ])("HTTP %i", async (status, code, words) => {
    const { hub, options } = await setUp();
    hub.faults.status = status;
    const pull = pullModel(options);
    await expect(pull).rejects.toMatchObject({ code });
    await expect(pull).rejects.toThrow(words);
  });

  test("no connection", async () => {
    const { options } = await setUp();
    const pull = pullModel({ ...options, hubUrl: "http://127.0.0.1:1" });
    await expect(pull).rejects.toMatchObject({ code: "NETWORK" });
    await expect(pull).rejects.toThrow("check the connection");
  });

  test("damaged bytes, which are not kept", async () => {
    const { hub, cacheDir, options } = await setUp();
    hub.faults.damaged = true;
    await expect(pullModel(options)).rejects.toThrow("its hash must be");
    expect(readdirSync(join(cacheDir, "models--acme--tiny-llama/blobs"))).toEqual([]);
  });

  test("weights as pickles only", async () => {
    const { options } = await setUp({ "pytorch_model.bin": Buffer.from("x") });
    await expect(pullModel(options)).rejects.toMatchObject({ code: "UNSUPPORTED_MODEL" });
  });

  test.each(["../../etc/passwd", "a/b/c", "", "a b/c"])("the name %s", async (name) => {
    await expect(pullModel({ name })).rejects.toMatchObject({ code: "INVALID_ARGUMENT" });
  });

  test("a hub that lists paths outside of the snapshot", async () => {
    const { cacheDir, options } = await setUp({ ...FILES, "../../evil.json": Buffer.from("{}") });
    await pullModel(options);
    expect(existsSync(join(cacheDir, "evil.json"))).toBe(false);
    expect(existsSync(join(cacheDir, "models--acme--tiny-llama", "evil.json"))).toBe(false);
  });
});

describe("a model's name", () => {
  test("is a path where there is one", async () => {
    expect(await resolveModel(LLAMA)).toBe(join(process.cwd(), LLAMA));
  });

  test("is a snapshot where it was downloaded, by branch and by commit", async () => {
    const { cacheDir, options } = await setUp();
    const directory = await pullModel(options);
    expect(await resolveModel(NAME, { cacheDir })).toBe(directory);
    expect(await resolveModel(NAME, { cacheDir, revision: COMMIT })).toBe(directory);
    await expect(resolveModel(NAME, { cacheDir, revision: "v2" })).rejects.toThrow(NAME);
  });

  test("is a model of this package, unless there is a path of that name", async () => {
    expect(await resolveModel("pocket")).toBe(join(process.cwd(), "models/pocket"));
    await expect(resolveModel("nosuch")).rejects.toThrow("check the path, or download a model");
  });

  test("is refused with the command that downloads it", async () => {
    const cacheDir = scratchFolder();
    const absent = resolveModel("acme/absent", { cacheDir });
    await expect(absent).rejects.toMatchObject({ code: "MODEL_NOT_FOUND", param: "model" });
    await expect(absent).rejects.toThrow("perigee models pull acme/absent");
    await expect(resolveModel("./no/such/dir", { cacheDir })).rejects.toThrow("check the path");
  });
});

describe("the list of downloaded models", () => {
  test("has those with weights, and their sizes", async () => {
    const { cacheDir, options } = await setUp();
    const path = await pullModel(options);
    mkdirSync(join(cacheDir, "models--acme--half", "snapshots", COMMIT), { recursive: true });
    const gguf = join(cacheDir, "models--acme--quant", "snapshots", COMMIT);
    mkdirSync(gguf, { recursive: true });
    writeFileSync(join(gguf, "q8.gguf"), "GGUF");
    const models = await listCachedModels(cacheDir);
    expect(models).toEqual([
      {
        name: "acme/quant",
        revision: COMMIT,
        path: join(gguf, "q8.gguf"),
        sizeBytes: 4,
      },
      expect.objectContaining({ name: NAME, path, revision: COMMIT }),
    ]);
    expect(models[1]?.sizeBytes).toBeGreaterThan(weights.length);
  });

  test("is empty without a cache", async () => {
    expect(await listCachedModels(join(scratchFolder(), "absent"))).toEqual([]);
  });
});
