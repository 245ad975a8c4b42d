/** Steps that draw from all of their rows: padded, replayed, fed from what was sampled before. */
import { describe, expect, test } from "vitest";
import { type DecodeShape, type DeviceTensor, ReferenceDevice } from "#devices";
import { warmUp } from "#models";
import { type Chunk, DecoderDriver } from "../contracts/decoder-driver.ts";
import { openRecordedModel } from "../contracts/recorded-model.ts";

/** The definition, padding its batches, and counting what it would keep. */
class PaddingDevice extends ReferenceDevice {
  readonly keys: string[] = [];

  override get replays(): boolean {
    return true;
  }

  override paddedBatch(count: number, countMax: number): number {
    return Math.min(Math.ceil(count / 4) * 4, countMax);
  }

  override paddedContext({ contextTokens, contextTokensMax }: DecodeShape): number {
    return Math.min(Math.ceil(contextTokens / 50) * 50, contextTokensMax);
  }

  override replay(key: string, enqueue: () => void): void {
    this.keys.push(key);
    enqueue();
  }
}

const prompts: readonly Chunk[] = [
  { sequence: 0, tokens: [1, 2, 3, 4, 5] },
  { sequence: 1, tokens: [9, 8] },
  { sequence: 2, tokens: [7, 6, 5] },
];
const next: readonly Chunk[] = [
  { sequence: 2, tokens: [11] },
  { sequence: 0, tokens: [12] },
  { sequence: 1, tokens: [13] },
];
const rows = [0, 1, 2];

function driverOn(device: ReferenceDevice, fixture = "llama", sequences = 8) {
  const { model, sources } = openRecordedModel(fixture);
  if (model.kind !== "decoder") throw new Error("A decoder is wanted");
  return new DecoderDriver({ device, model, sources, sequences });
}

function integers(device: ReferenceDevice, ...values: number[]): DeviceTensor {
  const tensor = device.allocate("i32", [values.length]);
  device.write(tensor, Int32Array.from(values));
  return tensor;
}

/** Logits of `next` after `prompts`, of the device's own sampled step. */
async function sampled(device: ReferenceDevice, driver: DecoderDriver): Promise<Float32Array> {
  driver.step(prompts);
  expect(driver.decoder.samplingLogits()).toBeNull();
  driver.step(next, { samplesAll: true });
  const logits = driver.decoder.samplingLogits();
  if (logits === null) throw new Error("Logits are wanted");
  return await device.readF32(logits);
}

describe("a step that samples from all of its rows", () => {
  test.for(["llama", "gemma2", "gpt2", "qwen3-moe"])(
    "has the logits that its rows have one by one, padded or not: %s",
    async (fixture) => {
      const device = new ReferenceDevice();
      const driver = driverOn(device, fixture);
      const plain = await sampled(device, driver);
      expect(await driver.logits(rows)).toEqual(plain);
      const padding = new PaddingDevice();
      const padded = driverOn(padding, fixture);
      expect(await sampled(padding, padded)).toEqual(plain);
      expect(await padded.logits(rows)).toEqual(plain);
      expect(await padded.hidden(rows)).toEqual(await driver.hidden(rows));
    },
  );

  test("leaves nothing behind in the cache where it is padded", async () => {
    const [device, padding] = [new ReferenceDevice(), new PaddingDevice()];
    const [driver, padded] = [driverOn(device), driverOn(padding)];
    await sampled(device, driver);
    await sampled(padding, padded);
    const more: Chunk[] = prompts.map(({ sequence }) => ({ sequence, tokens: [3, 4] }));
    driver.step(more);
    padded.step(more);
    expect(await padded.logits([0, 1, 2, 3, 4, 5])).toEqual(
      await driver.logits([0, 1, 2, 3, 4, 5]),
    );
  });

  test("takes ids from the last sampled tokens, where a source is given", async () => {
    const device = new PaddingDevice();
    const wanted = await sampled(device, driverOn(device));
    const driver = driverOn(device);
    driver.step(prompts);
    const unknown = next.map((chunk, i) => (i === 1 ? chunk : { ...chunk, tokens: [0] }));
    const tokenSources = Int32Array.of(2, -1, 0);
    driver.step(unknown, { samplesAll: true, tokenSources, sampled: integers(device, 13, 99, 11) });
    const logits = driver.decoder.samplingLogits();
    expect(logits && (await device.readF32(logits))).toEqual(wanted);
  });

  test("so does one that does not sample from all of them", async () => {
    const device = new ReferenceDevice();
    const driver = driverOn(device);
    driver.step([{ sequence: 0, tokens: [1, 2, 3] }]);
    const wanted = await driver.logits([2]);
    driver.rewind(0, 0);
    const tokenSources = Int32Array.of(-1, 0, -1);
    const step = [{ sequence: 0, tokens: [1, 0, 3] }];
    expect(() => driver.step(step, { tokenSources })).toThrow("not known where they are");
    driver.step(step, { tokenSources, sampled: integers(device, 2) });
    expect(await driver.logits([2])).toEqual(wanted);
  });

  test("has one token of each sequence, and no tree", () => {
    const driver = driverOn(new ReferenceDevice());
    expect(() => driver.step(prompts, { samplesAll: true })).toThrow(
      "Cannot sample from all rows: 10 tokens of 3 sequences, one each wanted",
    );
  });

  test("is kept by its padded size, its padded context, and where it takes from", () => {
    const device = new PaddingDevice();
    const driver = driverOn(device, "llama", 6);
    const step = (sequences: number, sampled?: DeviceTensor) => {
      const chunks = Array.from({ length: sequences }, (_, sequence) => ({
        sequence,
        tokens: [1],
      }));
      driver.step(chunks, { samplesAll: true, ...(sampled && { sampled }) });
    };
    const tokens = integers(device, 1);
    step(1, tokens);
    step(4);
    step(3, tokens);
    step(5, tokens);
    step(3, integers(device, 1));
    const kept = device.keys.map((key) => key.replace(/^decoder \d+ /, ""));
    expect(kept).toEqual(["2 4 50", "2 4 50", "2 4 50", "2 6 50", "3 4 50"]);
  });
});

/** One that keeps steps of any few rows. */
class KeepingDevice extends PaddingDevice {
  override get replaysByShape(): boolean {
    return true;
  }
}

describe("[SP41] a step of drafts", () => {
  test("is kept by its rows, its sequences, what is read of it, and its kind", () => {
    const device = new KeepingDevice();
    const { model, sources } = openRecordedModel("llama");
    if (model.kind !== "decoder") throw new Error("A decoder is wanted");
    const driver = new DecoderDriver({ device, model, sources, sequences: 6, treeTokens: 64 });
    const rowsOf = (sequence: number, count: number): Chunk => ({
      sequence,
      tokens: Array.from({ length: count }, () => 1),
    });
    const chain = [rowsOf(0, 4)];
    const treeMask = new Uint32Array(2 * 4);
    const wantedRows = Int32Array.of(3);
    const keyOf = (...step: Parameters<DecoderDriver["step"]>): string => {
      device.keys.splice(0);
      driver.step(...step);
      return device.keys.join();
    };
    const keys = [
      keyOf(chain),
      keyOf([rowsOf(0, 3)]),
      keyOf([rowsOf(0, 2), rowsOf(1, 2)]),
      keyOf(chain, { wantedRows }),
      keyOf(chain, { treeMask }),
      keyOf(chain, { treeMask, treeStarts: Int32Array.of(0) }),
      keyOf(chain, { tokenSources: Int32Array.of(-1, 0, -1, -1), sampled: integers(device, 2) }),
    ];
    expect(new Set(keys).size).toBe(keys.length);
    expect(keys.every((key) => key !== "")).toBe(true);
    // The sampled tokens are another tensor now; contexts grew all the time.
    const later = keyOf(chain);
    expect(later).not.toBe(keys[0]);
    expect(keyOf(chain)).toBe(later);
    expect(keyOf([rowsOf(3, 17)])).toBe("");
  });

  test("is not kept where ops depend on lengths", () => {
    const device = new PaddingDevice();
    driverOn(device).step([{ sequence: 0, tokens: [1, 2, 3, 4] }]);
    expect(device.keys).toEqual([]);
  });
});

describe("steps made ahead", () => {
  test("are those that come, and leave no trace", async () => {
    const device = new PaddingDevice();
    const driver = driverOn(device, "llama", 6);
    const seen: number[] = [];
    await warmUp({
      device,
      decoder: driver.decoder,
      cache: driver.cache,
      onProgress: ({ done, total }) => seen.push(done / total),
    });
    expect(seen).toEqual([1 / 6, 2 / 6, 3 / 6, 4 / 6, 5 / 6, 1]);
    const ahead = new Set(device.keys.splice(0));
    expect(ahead.size).toBe(6);
    expect(await sampled(device, driver)).toEqual(
      await sampled(new ReferenceDevice(), driverOn(new ReferenceDevice())),
    );
    expect(device.keys.every((key) => ahead.has(key))).toBe(true);
  });

  test("are those of drafts, too, where some are loaded: chains, and trees", async () => {
    const device = new PaddingDevice();
    const { model, sources } = openRecordedModel("llama");
    if (model.kind !== "decoder") throw new Error("A decoder is wanted");
    const treeTokens = 64;
    const driver = new DecoderDriver({ device, model, sources, sequences: 6, treeTokens });
    const { decoder, cache } = driver;
    await warmUp({ device, decoder, cache });
    const plain = new Set(device.keys.splice(0));
    const drafts = { rowsMax: 5, treeTokensMax: treeTokens };
    await warmUp({ device, decoder, cache, drafts });
    const added = [...new Set(device.keys)].filter((key) => !plain.has(key));
    const sizes = added.map((key) => key.replace(/^decoder \d+ \d+ /, ""));
    expect(sizes).toEqual(["6 50 apart", "4 50 apart", "6 50 apart tree", "4 50 apart tree"]);
  });

  test("are none where nothing is kept", async () => {
    const device = new ReferenceDevice();
    const { decoder, cache } = driverOn(device);
    await warmUp({ device, decoder, cache, onProgress: () => expect.fail() });
  });
});
