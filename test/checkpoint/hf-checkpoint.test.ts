import { cpSync, mkdirSync, readdirSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, test } from "vitest";
import { type NamedWeight, openCheckpoint, writeSafetensors } from "#checkpoint";
import { scratchFolder } from "./scratch-folder.ts";

const LLAMA = "test/fixtures/models/llama";

/** A copy of the fixture that a test may damage. */
function copyOf(fixture: string): string {
  const directory = join(scratchFolder(), "model");
  cpSync(fixture, directory, { recursive: true });
  return directory;
}

/** The fixture's weights in two shards with an index. */
function shardedCopy(): string {
  const directory = copyOf(LLAMA);
  const source = openCheckpoint(LLAMA);
  const weights = [...source.tensors.values()];
  const half = weights.length / 2;
  const weight_map: Record<string, string> = {};
  const write = (part: readonly NamedWeight[], name: string) => {
    const tensors = part.map((weight) => ({ ...weight, bytes: weight.bytes() }));
    writeSafetensors(join(directory, name), tensors);
    for (const weight of part) weight_map[weight.name] = name;
  };
  write(weights.slice(0, half), "model-00001-of-00002.safetensors");
  write(weights.slice(half), "model-00002-of-00002.safetensors");
  source.close();
  rmSync(join(directory, "model.safetensors"));
  writeIndex(directory, weight_map);
  return directory;
}

function writeIndex(directory: string, weight_map: unknown): void {
  const index = JSON.stringify({ metadata: {}, weight_map });
  writeFileSync(join(directory, "model.safetensors.index.json"), index);
}

describe("a directory in Hugging Face layout", () => {
  test.each(readdirSync("test/fixtures/models"))("%s opens with all its weights", (name) => {
    const checkpoint = openCheckpoint(`test/fixtures/models/${name}`);
    expect(checkpoint.tensors.size).toBeGreaterThan(10);
    expect(checkpoint.config.model_type).toBeTypeOf("string");
    let totalBytes = 0;
    for (const weight of checkpoint.tensors.values()) {
      totalBytes += weight.bytes().length;
      weight.discard();
    }
    expect(totalBytes).toBe(checkpoint.totalBytes);
    expect(checkpoint.tokenizer).toBeNull();
    expect(checkpoint.warnings).toHaveLength(1);
    checkpoint.close();
  });

  test("gives the same weights from shards as from one file", () => {
    const one = openCheckpoint(LLAMA);
    const sharded = openCheckpoint(shardedCopy());
    expect([...sharded.tensors.keys()].sort()).toEqual([...one.tensors.keys()].sort());
    for (const weight of one.tensors.values()) {
      const other = sharded.tensors.get(weight.name)?.bytes() ?? new Uint8Array(0);
      expect(Buffer.compare(other, weight.bytes()), weight.name).toBe(0);
    }
    one.close();
    sharded.close();
  });

  test("with a shard missing says which", () => {
    const directory = shardedCopy();
    rmSync(join(directory, "model-00002-of-00002.safetensors"));
    const act = () => openCheckpoint(directory);
    expect(act).toThrow("shard model-00002-of-00002.safetensors must exist");
    expect(act).toThrow(expect.objectContaining({ code: "CHECKPOINT_INVALID" }));
  });

  test("with an index that names a tensor no shard has says which", () => {
    const directory = shardedCopy();
    writeIndex(directory, { "model.lost.weight": "model-00001-of-00002.safetensors" });
    expect(() => openCheckpoint(directory)).toThrow("model.lost.weight must exist");
  });

  test.each(["../outside.safetensors", "/etc/passwd", "a/b.safetensors", "model.bin", 3])(
    "with an index that points to %s is refused",
    (shard) => {
      const directory = shardedCopy();
      writeIndex(directory, { w: shard });
      expect(() => openCheckpoint(directory)).toThrow("weight_map.w must be the plain name");
    },
  );

  test("that is cut off says where", () => {
    const directory = copyOf(LLAMA);
    writeFileSync(join(directory, "model.safetensors"), Buffer.alloc(20, 1));
    expect(() => openCheckpoint(directory)).toThrow("model.safetensors: header length");
  });

  test("without config.json, weights, or with pickles only says what to do", () => {
    const directory = copyOf(LLAMA);
    rmSync(join(directory, "model.safetensors"));
    expect(() => openCheckpoint(directory)).toThrow("must have model.safetensors");
    writeFileSync(join(directory, "pytorch_model.bin"), "pickle");
    const act = () => openCheckpoint(directory);
    expect(act).toThrow("safe_serialization=True");
    expect(act).toThrow(expect.objectContaining({ code: "UNSUPPORTED_MODEL" }));
    rmSync(join(directory, "config.json"));
    expect(act).toThrow("must have a config.json");
  });

  test("that was quantised by other tools is refused with a remedy", () => {
    const directory = copyOf(LLAMA);
    const config = { model_type: "llama", quantization_config: { quant_method: "hqq" } };
    writeFileSync(join(directory, "config.json"), JSON.stringify(config));
    expect(() => openCheckpoint(directory)).toThrow('quantization: "int8", --quantization int8');
  });

  test("with scales for the KV cache and unquantised weights is taken", () => {
    const directory = copyOf(LLAMA);
    const write = (groups: object) => {
      const scheme = { num_bits: 8, type: "float" };
      const quantization = { config_groups: groups, kv_cache_scheme: scheme };
      const config = { model_type: "llama", quantization_config: quantization };
      writeFileSync(join(directory, "config.json"), JSON.stringify(config));
    };
    write({});
    openCheckpoint(directory).close();
    write({ group_0: { weights: { num_bits: 8 } } });
    expect(() => openCheckpoint(directory)).toThrow("quantization_config.quant_method must be");
  });
});

test("a single safetensors file takes the configuration beside it", () => {
  const checkpoint = openCheckpoint(`${LLAMA}/model.safetensors`);
  expect(checkpoint.config.model_type).toBe("llama");
  expect(checkpoint.generationConfig).not.toBeNull();
  checkpoint.close();
});

test("a path that is absent, or of another kind, is refused with a remedy", () => {
  const directory = scratchFolder();
  expect(() => openCheckpoint(join(directory, "absent"))).toThrow("perigee models pull");
  writeFileSync(join(directory, "model.onnx"), "");
  expect(() => openCheckpoint(join(directory, "model.onnx"))).toThrow(".safetensors or .gguf");
  writeFileSync(join(directory, "a.gguf"), "");
  writeFileSync(join(directory, "b.gguf"), "");
  expect(() => openCheckpoint(directory)).toThrow("current value is 2 (a.gguf, b.gguf)");
});

describe("the tokenizer's files", () => {
  function withFiles(files: Readonly<Record<string, unknown>>): string {
    const directory = copyOf(LLAMA);
    mkdirSync(directory, { recursive: true });
    for (const [name, content] of Object.entries(files)) {
      const text = typeof content === "string" ? content : JSON.stringify(content);
      writeFileSync(join(directory, name), text);
    }
    return directory;
  }

  test.each([
    ["a string", { "tokenizer_config.json": { chat_template: "T" } }, "T"],
    [
      "the one called default",
      {
        "tokenizer_config.json": {
          chat_template: [
            { name: "tool_use", template: "U" },
            { name: "default", template: "D" },
          ],
        },
      },
      "D",
    ],
    [
      "a file of its own before the configuration",
      { "tokenizer_config.json": { chat_template: "T" }, "chat_template.jinja": "J" },
      "J",
    ],
    ["absent", { "tokenizer_config.json": {} }, null],
  ])("hold a chat template that is %s", (_name, files, template) => {
    const checkpoint = openCheckpoint(withFiles({ "tokenizer.json": { model: {} }, ...files }));
    expect(checkpoint.tokenizer?.chatTemplate).toBe(template);
    expect(checkpoint.warnings).toEqual([]);
    checkpoint.close();
  });

  test("give special tokens of both files, tokenizer_config.json first", () => {
    const directory = withFiles({
      "tokenizer.json": {},
      "special_tokens_map.json": { bos_token: "<a>", eos_token: "<b>" },
      "tokenizer_config.json": { eos_token: "<c>" },
    });
    const checkpoint = openCheckpoint(directory);
    expect(checkpoint.tokenizer?.tokenizerConfig).toEqual({ bos_token: "<a>", eos_token: "<c>" });
    checkpoint.close();
  });

  test("that are broken are named when they are asked for", () => {
    const checkpoint = openCheckpoint(withFiles({ "tokenizer.json": "{" }));
    expect(() => checkpoint.tokenizer).toThrow("tokenizer.json: content must be valid JSON");
    checkpoint.close();
  });
});
