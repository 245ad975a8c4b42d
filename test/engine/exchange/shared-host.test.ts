/** Engines of two processes on one machine: the way that blocks go from one to the other. */
import { expect, test } from "vitest";
import { LLM, type LoadOptions } from "../../../src/index.ts";
import { FleetProcess } from "../../support/fleet-process.ts";
import { json } from "../../support/json.ts";
import { NIXL, NO_NIXL } from "../../support/nixl.ts";

const GREEDY = { maxTokens: 8, temperature: 0, ignoreEos: true } as const;
const TEST_MS = 120_000;
const PROMPT_TOKENS = 100;
const ids = Array.from({ length: PROMPT_TOKENS }, (_, place) => 3 + ((place * 7919) % 300));

/** Pieces by way that a worker gave for one prompt, whose tokens are those of one engine. */
async function waysOf(
  device: "cpu" | "reference",
  words: readonly string[],
  kvTransfer: LoadOptions["kvTransfer"],
): Promise<Record<string, number>> {
  const model = "test/fixtures/models/llama";
  const same = ["--device", device, "--dtype", "float32", "--threads", "1", "--port", "0"];
  const worker = await FleetProcess.start([
    "worker",
    model,
    "--role",
    "prefill",
    ...same,
    ...words,
  ]);
  try {
    const { transfer } = await json(await fetch(`${worker.url}/worker_info`));
    const kvSource = { ...(transfer as unknown as { host: string; port: number }), compute: true };
    const options = { device, dtype: "float32", threads: 1 } as const;
    await using alone = await LLM.load(model, options);
    await using decode = await LLM.load(model, { ...options, kvTransfer });
    const prompt = [{ promptTokenIds: ids }];
    const [expected] = await alone.generate(prompt, GREEDY);
    const [found] = await decode.generate(prompt, { ...GREEDY, kvSource });
    expect(found?.completions).toEqual(expected?.completions);
    expect(decode.stats().computedPromptTokens).toBe(1);
    const text = await (await fetch(`${worker.url}/metrics`)).text();
    const series = /^perigee:kv_transfer_sent_pieces_total\{.*way="(\w+)"\} (\d+)$/gm;
    return Object.fromEntries(
      [...text.matchAll(series)].map(([, way = "", value]) => [way, Number(value)]),
    );
  } finally {
    await worker.end("SIGTERM");
  }
}

test(
  "[KV70] a CPU worker's blocks are copied out of its host memory",
  async () => {
    const ways = await waysOf("cpu", [], {});
    expect(ways).toEqual({ bytes: 0, nixl: 0, mapped: expect.any(Number) });
    expect(ways.mapped).toBeGreaterThanOrEqual(Math.floor(PROMPT_TOKENS / 16));
  },
  TEST_MS,
);

test(
  "[KV70] blocks in memory that is not shared are sent",
  async () => {
    const ways = await waysOf("reference", [], {});
    expect(ways).toEqual({ bytes: expect.any(Number), nixl: 0, mapped: 0 });
    expect(ways.bytes).toBeGreaterThanOrEqual(Math.floor(PROMPT_TOKENS / 16));
  },
  TEST_MS,
);

test.skipIf(NIXL === null)(
  `[KV70] or read by NIXL${NO_NIXL === null ? "" : ` (${NO_NIXL})`}`,
  {
    timeout: TEST_MS,
  },
  async () => {
    const nixl = NIXL ?? "";
    const ways = await waysOf("reference", ["--kv-transfer-nixl", nixl], { nixl });
    expect(ways).toEqual({ bytes: 0, nixl: expect.any(Number), mapped: 0 });
    expect(ways.nixl).toBeGreaterThanOrEqual(Math.floor(PROMPT_TOKENS / 16));
  },
);
