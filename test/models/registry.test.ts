import { readdirSync, readFileSync } from "node:fs";
import { fileURLToPath } from "node:url";
import { describe, expect, test } from "vitest";
import { EngineError } from "#base";
import { describeModel, type JsonConfig, modelTypes } from "#models";

const models = fileURLToPath(new URL("../fixtures/models", import.meta.url));
const fixtures = readdirSync(models);

function configOf(fixture: string): Record<string, unknown> {
  return JSON.parse(readFileSync(`${models}/${fixture}/config.json`, "utf8"));
}

/** The same config as transformers 4 wrote it. */
function inDialect4(config: JsonConfig): JsonConfig {
  const { rope_parameters: rope, dtype, num_local_experts: experts, ...rest } = config;
  const older: Record<string, unknown> = { ...rest, torch_dtype: dtype };
  if (experts !== undefined) {
    older[config.model_type === "qwen3_moe" ? "num_experts" : "num_local_experts"] = experts;
  }
  delete older.layer_types;
  if (typeof rope === "object" && rope !== null) {
    const { rope_theta, rope_type, partial_rotary_factor, ...scaling } = Object.fromEntries(
      Object.entries(rope),
    );
    older.rope_theta = rope_theta;
    older.rope_scaling = rope_type === "default" ? null : { rope_type, ...scaling };
    if (partial_rotary_factor !== undefined) older.partial_rotary_factor = partial_rotary_factor;
  }
  return older;
}

function errorOf(config: JsonConfig): EngineError {
  try {
    describeModel(config);
  } catch (error) {
    if (error instanceof EngineError) return error;
    throw error;
  }
  throw new Error("No error");
}

describe("dialects of config.json", () => {
  test.for(fixtures)("transformers 4's describes the same model as 5's: %s", (fixture) => {
    const config = configOf(fixture);
    expect(describeModel(inDialect4(config)).spec).toEqual(describeModel(config).spec);
  });

  test("an older rope_scaling says `type`, and a config without rope_theta means 10000", () => {
    const { rope_parameters: _, ...config } = configOf("llama");
    const model = describeModel({ ...config, rope_scaling: { type: "linear", factor: 2 } });
    expect(model.kind === "decoder" && model.spec.positions).toEqual({
      ...{ kind: "rope", rotaryDim: 16, theta: 10_000 },
      scaling: { kind: "linear", factor: 2 },
    });
  });
});

describe("what cannot be run", () => {
  test("an unknown model_type is refused with the list of the known ones", () => {
    const error = errorOf({ model_type: "mamba" });
    expect(error.code).toBe("UNSUPPORTED_MODEL");
    for (const modelType of modelTypes) expect(error.message).toContain(modelType);
    expect(error.message).toContain('current value is "mamba"');
  });

  test("a missing model_type names the field", () => {
    const error = errorOf({});
    expect(error.code).toBe("CHECKPOINT_INVALID");
    expect(error.message).toMatch(/config\.json: model_type: .* current value is missing/);
  });

  test.for([
    ["hidden_size", undefined],
    ["hidden_size", "96"],
    ["hidden_size", -1],
    ["hidden_size", 1e300],
    ["num_hidden_layers", 1e9],
    ["num_attention_heads", 0],
    ["num_key_value_heads", 4],
    ["vocab_size", 3.5],
    ["rms_norm_eps", 0],
    ["eos_token_id", "</s>"],
    ["eos_token_id", [2, -1]],
    ["tie_word_embeddings", "yes"],
    ["max_position_embeddings", null],
  ] as const)("a wrong %s is refused by name: %s", ([field, value]) => {
    const error = errorOf({ ...configOf("llama"), [field]: value });
    expect(error.code).toBe("CHECKPOINT_INVALID");
    expect(error.param?.split(".")[0]).toBe(field);
    expect(error.message).toContain("config.json");
  });

  test("layer_types must have one entry per layer", () => {
    const config = { ...configOf("mistral-sliding-window"), layer_types: ["full_attention"] };
    expect(errorOf(config).message).toContain("layer_types: 3 entries, current value is 1");
  });

  test("heads that do not divide the hidden size are refused", () => {
    const config = { ...configOf("mixtral"), num_attention_heads: 7 };
    expect(errorOf(config).message).toContain("num_attention_heads: a divisor of 96");
  });

  test.for([
    ["llama", { hidden_act: "mish" }, "hidden_act"],
    ["llama", { rope_parameters: { rope_type: "mrope" } }, "rope_type"],
    ["qwen2", { layer_types: Array(3).fill("linear_attention") }, "layer_types"],
    ["opt", { do_layer_norm_before: false }, "do_layer_norm_before"],
    ["opt", { word_embed_proj_dim: 32 }, "word_embed_proj_dim"],
    ["gpt2", { scale_attn_by_inverse_layer_idx: true }, "scale_attn_by_inverse_layer_idx"],
    ["gpt2", { add_cross_attention: true }, "add_cross_attention"],
    ["phi-1_5", { qk_layernorm: true }, "qk_layernorm"],
    ["bert-encoder", { is_decoder: true }, "is_decoder"],
    ["bert-encoder", { position_embedding_type: "relative_key" }, "position_embedding_type"],
  ] as const)("%s with %o is right, and not for us", ([fixture, change, field]) => {
    const error = errorOf({ ...configOf(fixture), ...change });
    expect(error.code).toBe("UNSUPPORTED_MODEL");
    expect(error.param).toBe(field);
  });

  test("a scaling without its numbers names them", () => {
    const config = { ...configOf("llama"), rope_parameters: { rope_type: "llama3", factor: 8 } };
    expect(errorOf(config).message).toContain("rope_scaling.low_freq_factor");
    const longrope = { rope_type: "longrope", short_factor: [1], long_factor: [1] };
    const phi3 = { ...configOf("phi3"), rope_parameters: longrope };
    expect(errorOf(phi3).message).toContain("short_factor: 8 numbers, current value is 1");
  });
});
