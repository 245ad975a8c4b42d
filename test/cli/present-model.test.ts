import { readdirSync, readFileSync } from "node:fs";
import { afterEach, describe, expect, test, vi } from "vitest";
import { longName, resolveModel, shortNames } from "#checkpoint";
import { isHubOffline, presentModel } from "../../src/cli/present-model.ts";
import { startHub } from "../checkpoint/hub-server.ts";
import { scratchFolder } from "../checkpoint/scratch-folder.ts";
import { built, perigee, perigeeInside } from "./perigee.ts";

const NAME = "acme/tiny-llama";
const LLAMA = "test/fixtures/models/llama";
const files = Object.fromEntries(
  readdirSync(LLAMA)
    .filter((name) => /\.(json|safetensors|jinja)$/.test(name))
    .map((name) => [name, readFileSync(`${LLAMA}/${name}`)]),
);

afterEach(() => vi.unstubAllEnvs());

async function setUp(name = NAME) {
  const hub = await startHub(name, files);
  vi.stubEnv("HF_ENDPOINT", hub.url);
  const said: string[] = [];
  const cacheDir = scratchFolder();
  const present = (model: string, offline = false) =>
    presentModel(model, { cacheDir, offline, say: (text) => said.push(text) });
  return { hub, said, cacheDir, present };
}

describe("a model that is named as on the hub", () => {
  test("is downloaded once, which is told", async () => {
    const { hub, said, cacheDir, present } = await setUp();
    await present(NAME);
    expect(said[0]).toBe(`downloading ${NAME} from ${hub.url}`);
    expect(await resolveModel(NAME, { cacheDir })).toContain("models--acme--tiny-llama");
    const asked = hub.log.length;
    await present(NAME);
    expect(hub.log).toHaveLength(asked);
  });

  test("is found by its short name", async () => {
    const { cacheDir, present } = await setUp("Qwen/Qwen2.5-0.5B-Instruct");
    await present("Qwen2.5:0.5b");
    expect(await resolveModel("qwen2.5:0.5b", { cacheDir })).toContain("Qwen2.5-0.5B-Instruct");
  });

  test("is not downloaded offline, and the remedy is told", async () => {
    const { hub, present } = await setUp();
    await expect(present(NAME, true)).rejects.toMatchObject({
      code: "MODEL_NOT_FOUND",
      message: expect.stringContaining(`perigee models pull ${NAME}`),
    });
    expect(hub.log).toEqual([]);
  });
});

test.for(["models/pokcet", "pocket", "test/fixtures", "nowhere/at/all", "./acme/tiny", "C:\\m"])(
  "%s is no name of the hub, which is not asked for it",
  async (model) => {
    const { hub, present } = await setUp();
    await present(model);
    expect(hub.log).toEqual([]);
  },
);

test("short names stand for repositories with an organisation", () => {
  for (const [short, name] of shortNames()) {
    expect(short).toMatch(/^[a-z][a-z0-9.-]*:[a-z0-9.-]+$/);
    expect(name).toMatch(/^[\w-]+\/[\w.-]+$/);
    expect(longName(short.toUpperCase())).toBe(name);
  }
  expect(["qwen2.5:0.5b", "smollm2:135m", "llama3.2:1b"].map(longName)).not.toContain(null);
  expect(longName("constructor:7b")).toBeNull();
});

test("a short name that is none says which there are", async () => {
  await expect(resolveModel("qwen2.5:9b")).rejects.toThrow("qwen2.5 has 0.5b, 1.5b, 3b");
  await expect(resolveModel("gpt9:1b")).rejects.toThrow("short names begin with smollm2, qwen2.5");
});

test.for<[string | undefined, boolean]>([
  ["1", true],
  ["true", true],
  ["0", false],
  [undefined, false],
])("HF_HUB_OFFLINE=%s means offline: %s", ([HF_HUB_OFFLINE, offline]) => {
  expect(isHubOffline({ HF_HUB_OFFLINE })).toBe(offline);
});

test("perigee models pull --offline asks no hub: it says where a model is, or that it is not here", async () => {
  const { hub, cacheDir } = await setUp();
  const words = ["models", "pull", NAME, "--hub-url", hub.url, "--cache-dir", cacheDir];
  const before = await perigeeInside([...words, "--offline"]);
  expect(before).toMatchObject({ code: 1, stdout: "" });
  expect(before.stderr).toContain(`where there is a network: perigee models pull ${NAME}`);
  const pulled = await perigeeInside(words);
  expect(pulled.code).toBe(0);
  expect(await perigeeInside([...words, "--offline"])).toMatchObject(pulled);
  const file = await perigeeInside([...words, "--offline", "--file", "none.gguf"]);
  expect(file).toMatchObject({ code: 1, stdout: "" });
  expect(file.stderr).toContain("Cannot find file: none.gguf");
});

test.runIf(built)("perigee generate ORG/NAME downloads, and generates", async () => {
  const { hub, cacheDir } = await setUp();
  const environment = { HF_ENDPOINT: hub.url, HF_HUB_CACHE: cacheDir };
  const words = ["generate", NAME, "--prompt-ids", "1,2,3", "--max-tokens", "2", "--temperature=0"];
  const offline = await perigee([...words, "--offline"], { environment });
  expect(offline).toMatchObject({ code: 1, stdout: "" });
  const ran = await perigee(words, { environment });
  expect(ran.code).toBe(0);
  expect(ran.stderr).toContain(`perigee: downloading ${NAME} from ${hub.url}`);
  const again = await perigee(words, { environment: { ...environment, PERIGEE_OFFLINE: "1" } });
  expect(again).toMatchObject({ code: 0, stdout: ran.stdout });
});
