/** EAGLE-3 beside its network in plain numbers, and files that are refused. */
import { readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { afterAll, describe, expect, test } from "vitest";
import { type Device, openDevice } from "#devices";
import { LLM, type LoadOptions } from "#engine";
import { describeEagle3, type JsonConfig } from "#models";
import { scratchFolder } from "../../checkpoint/scratch-folder.ts";
import { RandomNumbers } from "../../contracts/device-ops/random.ts";
import { fixturePath } from "../../contracts/recorded-model.ts";
import { emulatedSettings, openEmulated } from "../../devices/cuda/emulated-device.ts";
import { type Eagle3Shape, writeRandomEagle3 } from "../../support/random-eagle3.ts";
import { Eagle3Bench, type GivenText } from "./eagle3-bench.ts";

const [B, V] = [24, 64];
const layers = Array.from({ length: 8 }, () => ({
  window: null,
  feedForward: { kind: "dense", size: 8, activation: "silu", gated: true } as const,
}));
const base = { hiddenSize: B, layers };

const shapes: Readonly<Record<string, Eagle3Shape>> = {
  "as published": { base: B, vocabulary: V },
  "with a draft vocabulary and another hidden size": {
    ...{ base: B, hidden: 32, heads: 4, kvHeads: 1, vocabulary: V, drafted: 30 },
  },
  "of speculators, normalised before the residual": {
    ...{ base: B, vocabulary: V, prefixes: ["layers.0.", ""] },
    config: { norm_before_residual: true, norm_before_fc: true },
  },
  "of version 3.1, Qwen-3's heads, biases and two hidden states": {
    ...{ base: B, vocabulary: V, taps: [1, 6], prefixes: ["model.layers.0.", "model."] },
    config: { ...{ model_type: "qwen3", attention_bias: true, fc_norm: true }, norm_output: true },
  },
  "with the base's embeddings": { base: B, vocabulary: V, tokens: false },
};

const devices: Device[] = [];
for (const kind of ["reference", "cpu"] as const) {
  devices.push(await openDevice({ kind, threads: 1, warn: () => {} }));
}
if (emulatedSettings() !== null) devices.push(await openEmulated());
afterAll(() => {
  for (const device of devices) device.dispose();
});

/** A text, and the base's hidden states of its tokens. */
function textOf(length: number, taps: number, seed = 3): GivenText {
  const random = new RandomNumbers(seed);
  return {
    tokens: Int32Array.from({ length }, () => random.below(V)),
    states: Array.from({ length: taps }, () => random.floats(length * B)),
  };
}

function benchOf(device: Device, shape: Eagle3Shape = { base: B, vocabulary: V }): Eagle3Bench {
  const folder = scratchFolder();
  writeRandomEagle3(folder, shape);
  const baseTokens = new RandomNumbers(9).floats(V * B);
  return new Eagle3Bench(device, { folder, base, baseTokens });
}

describe.each(devices)("on $kind", (device) => {
  test.each(Object.entries(shapes))("drafts as in plain numbers: %s", async (_, shape) => {
    const bench = benchOf(device, shape);
    const text = textOf(20, bench.taps);
    for (const position of [1, 2, 4, 7, 13, 20]) {
      bench.fill(text, 0, position);
      const drafted = await bench.draft(11, position, position - 1);
      expect(drafted).toEqual(bench.plain.draft(text, position, 11, 5));
      const third = await bench.draft(11, position, position - 1, { rank: 2 });
      expect(third).toEqual(bench.plain.draft(text, position, 11, 5, 2));
    }
  });

  test("[SP16] however steps are cut, the drafts are the same", async () => {
    const bench = benchOf(device);
    const text = textOf(20, bench.taps);
    const wanted = bench.plain.draft(text, 20, 5, 6);
    for (const cuts of [[20], [1, 2, 3, 20], [4, 8, 12, 16, 20], [5, 19, 20], [7, 20]]) {
      // What lies in the blocks must not matter.
      bench.fill(textOf(20, bench.taps, 77), 0, 20);
      let start = 0;
      for (const end of cuts) {
        bench.fill(text, start, end);
        start = end;
      }
      const last = cuts.at(-2) ?? 0;
      expect(await bench.draft(5, 20, 20 - last - 1, { length: 6 })).toEqual(wanted);
    }
  });

  test("rows that are sequences of their own, padded and captured, are filled the same", async () => {
    const bench = benchOf(device);
    const text = textOf(20, bench.taps);
    const wanted = bench.plain.draft(text, 20, 5, 6);
    // The second run of a size is captured, and the third one replayed.
    for (const steps of [
      [1, 1, 1],
      [3, 3, 3],
      [4, 3, 1],
    ]) {
      bench.fill(textOf(20, bench.taps, 77), 0, 20);
      let start = 20 - steps.reduce((sum, count) => sum + count);
      bench.fill(text, 0, start);
      for (const [place, count] of steps.entries()) {
        bench.fillApart(text, start, start + count, place % 2);
        start += count;
      }
      expect(await bench.draft(5, 20, (steps.at(-1) ?? 0) - 1, { length: 6 })).toEqual(wanted);
    }
  });

  test.each([false, true])("a tree's rows come behind their parents; apart: %s", async (apart) => {
    const bench = benchOf(device);
    const text = textOf(10, bench.taps);
    bench.fill(text, 0, 8);
    // Rows: the token at 8, two that follow it, and one behind the second of these.
    const tokenIds = Int32Array.of(text.tokens[8] ?? 0, 40, text.tokens[9] ?? 0, 41);
    const row = (place: number) => (tap: Float32Array) => tap.subarray(place * B, (place + 1) * B);
    const other = textOf(4, bench.taps, 5);
    text.states.forEach((states, tap) => {
      const noise = other.states[tap] ?? new Float32Array(4 * B);
      const rows = [row(8)(states), row(1)(noise), row(9)(states), row(3)(noise)];
      bench.writeStates(tap, Float32Array.from(rows.flatMap((values) => [...values])));
    });
    const treeMask = Uint32Array.of(0, 0, 0b10, 0b10);
    bench.fillRows({ tokenIds, positions: Int32Array.of(8, 9, 9, 10), treeMask }, apart);
    // The second continuation was accepted: its entry moves from slot 10 to slot 9.
    bench.move(10, 9);
    expect(await bench.draft(3, 10, 2)).toEqual(bench.plain.draft(text, 10, 3, 5));
  });
});

const llama = {
  ...{ model_type: "llama", hidden_size: B, intermediate_size: 48, num_attention_heads: 4 },
  ...{ num_key_value_heads: 2, head_dim: 16, vocab_size: V, max_position_embeddings: 64 },
};

describe("what a config.json says", () => {
  test("layers: low, middle and high; by their inputs, or in eagle_config by outputs", () => {
    const taps = (more: JsonConfig) => describeEagle3({ ...llama, ...more }, base).taps;
    const ids = "eagle_aux_hidden_state_layer_ids";
    expect(taps({})).toEqual([2, 4, 5]);
    expect(taps({ [ids]: [0, 3, 7] })).toEqual([0, 3, 7]);
    expect(taps({ [ids]: [1, 3, 5] })).toEqual([1, 3, 5]);
    expect(taps({ eagle_config: { [ids]: [1, 3, 6] } })).toEqual([2, 4, 7]);
    expect(taps({ eagle_config: { [ids]: [2, 4, 5] } })).toEqual([2, 4, 5]);
  });

  test("a layer's fields may be in transformer_layer_config", () => {
    const nested = {
      ...{ speculators_model_type: "eagle3", transformer_layer_config: llama },
      ...{ draft_vocab_size: 32, norm_before_residual: true, target_hidden_size: null },
    };
    expect(describeEagle3(nested, base)).toMatchObject({
      ...{ hiddenSize: B, vocabularySize: V, draftVocabularySize: 32, normBeforeResidual: true },
      ...{ inputNorm: "none", normOutput: false, heads: 4, kvHeads: 2, headDim: 16 },
      madeFor: { hiddenSize: B, vocabularySize: V, base: null },
    });
  });

  test.for([
    [{ speculators_model_type: "dflash" }, "UNSUPPORTED_MODEL", "speculators_model_type"],
    [{ model_type: "deepseek_v3" }, "UNSUPPORTED_MODEL", "model_type"],
    [{ num_hidden_layers: 2 }, "UNSUPPORTED_MODEL", "num_hidden_layers"],
    [{ parallel_drafting: true }, "UNSUPPORTED_MODEL", "parallel_drafting"],
    [{ eagle_config: { use_aux_hidden_state: false } }, "UNSUPPORTED_MODEL", "use_aux_hidden"],
    [{ fc_norm: true, norm_before_fc: true }, "UNSUPPORTED_MODEL", "norm_before_fc"],
    [{ draft_vocab_size: V + 1 }, "CHECKPOINT_INVALID", "draft_vocab_size"],
    [{ logit_scale: 0 }, "CHECKPOINT_INVALID", "logit_scale"],
    [{ hidden_size: 2 ** 40 }, "CHECKPOINT_INVALID", "hidden_size"],
    [{ eagle_aux_hidden_state_layer_ids: [0, 3, 8] }, "CHECKPOINT_INVALID", "eagle_aux"],
    [
      { eagle_config: { eagle_aux_hidden_state_layer_ids: [1, 4, 7] } },
      ...(["CHECKPOINT_INVALID", "eagle_aux"] as const),
    ],
    [{ eagle_aux_hidden_state_layer_ids: [3, 3, 4] }, "CHECKPOINT_INVALID", "eagle_aux"],
    [{ eagle_aux_hidden_state_layer_ids: [] }, "CHECKPOINT_INVALID", "eagle_aux"],
    [{ eagle_aux_hidden_state_layer_ids: [-1, 2, 3] }, "CHECKPOINT_INVALID", "eagle_aux"],
    [{ num_key_value_heads: 3 }, "CHECKPOINT_INVALID", "num_key_value_heads"],
  ] as const)("refused: %j", ([change, code, param]) => {
    expect(() => describeEagle3({ ...llama, ...change }, base)).toThrow(
      expect.objectContaining({ code, param: expect.stringContaining(param) }),
    );
  });

  test("a base of few layers has no low, middle and high ones: they must be named", () => {
    const small = { hiddenSize: B, layers: layers.slice(0, 3) };
    expect(() => describeEagle3(llama, small)).toThrow(/layers of the base in rising order/);
  });
});

describe("[SP11] a drafter of another model, or a broken one, is refused", () => {
  const load = (model: string, more: LoadOptions = {}): Promise<LLM> =>
    LLM.load(fixturePath("llama"), {
      ...{ device: "cpu", dtype: "float32", threads: 1, engineThread: false, ...more },
      speculative: { kind: "eagle3", model, ...more.speculative },
    });
  const good: Eagle3Shape = { base: 96, taps: [0, 1, 2], vocabulary: 320, drafted: 100 };

  /** A folder with a drafter the header of whose file was changed. */
  function written(shape: Eagle3Shape, change: (text: string) => string = (text) => text): string {
    const folder = scratchFolder();
    writeRandomEagle3(folder, shape);
    const path = join(folder, "model.safetensors");
    const bytes = readFileSync(path);
    const length = Number(bytes.readBigUInt64LE(0));
    const text = change(bytes.subarray(8, 8 + length).toString());
    const size = Buffer.alloc(8);
    size.writeBigUInt64LE(BigInt(Buffer.byteLength(text)));
    writeFileSync(path, Buffer.concat([size, Buffer.from(text), bytes.subarray(8 + length)]));
    return folder;
  }

  test.for([
    ["another hidden size", { ...good, base: 80, hidden: 80 }, /hidden_size must be 96/],
    ["another vocabulary", { ...good, vocabulary: 300 }, /vocab_size must be 320/],
    ["another base", { ...good, config: { base_fingerprint: "00" } }, /base_fingerprint must be/],
    [
      "layers that the base lacks",
      { ...good, config: { eagle_aux_hidden_state_layer_ids: [0, 1, 3] } },
      /those of 0 to 2/,
    ],
    [
      "fewer layers than it was trained for",
      { ...good, config: { eagle_aux_hidden_state_layer_ids: [0, 1] } },
      /fc.weight: shape must be \[96, 192\]/,
    ],
    ["heads of another size", { ...good, config: { head_dim: 32 } }, /shape must be/],
    ["no embeddings of its size", { ...good, hidden: 64, tokens: false }, /embed_tokens.weight/],
  ] as const)("%s", async ([, shape, message]) => {
    await expect(load(written(shape))).rejects.toThrow(message);
  });

  test.for([
    ["no map", (text: string) => text.replace('"d2t"', '"d2x"'), /tensor d2t must be integers/],
    ["no fc", (text: string) => text.replace('"fc.', '"fd.'), /fc.weight/],
    [
      "a drafter of several tokens at once",
      (text: string) => text.replace("embed_tokens.weight", "mask_hidden"),
      /mask_hidden.*several tokens at once/,
    ],
    [
      "queries of EAGLE-1, which do not read the embedding",
      (text: string) => text.replace("[64,192]", "[128,96]"),
      /q_proj.weight: it must have 192 columns/,
    ],
  ] as const)("%s", async ([, change, message]) => {
    await expect(load(written(good, change))).rejects.toThrow(message);
  });

  test("attention sinks, more continuations than tokens, and a folder that is not there", async () => {
    const folder = written(good);
    const sinks = { kvCache: { attentionWindow: 24, attentionSinks: 4 } };
    await expect(load(folder, sinks)).rejects.toThrow(/eagle3 with attention sinks/);
    const wide = { speculative: { width: 12 } };
    const few = written({ ...good, drafted: 10 });
    await expect(load(few, wide)).rejects.toThrow(/width must be at most 10.*current value is 12/);
    await expect(load(join(folder, "none"))).rejects.toMatchObject({ code: "MODEL_NOT_FOUND" });
    await using llm = await load(folder);
    expect(llm.info.speculative).toMatchObject({ kind: "eagle3", lengthMax: 4, width: 1 });
  });
});
