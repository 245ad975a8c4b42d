import { describe, expect, test } from "vitest";
import { describeModel, type JsonConfig } from "#models";
import { encoderPositions } from "../../../src/models/encoder-positions.ts";

const SIZES = {
  ...{ hidden_size: 48, intermediate_size: 96, num_hidden_layers: 5, num_attention_heads: 3 },
  ...{ vocab_size: 100, max_position_embeddings: 64 },
};

function encoderOf(config: JsonConfig) {
  const model = describeModel(config);
  if (model.kind !== "encoder") throw new Error("An encoder is wanted");
  return model;
}

describe("ModernBERT", () => {
  const modern = { model_type: "modernbert", ...SIZES };
  const plain = encoderOf(modern).spec.layers;

  test("sees a window on either side in all but each third layer", () => {
    expect(plain.map(({ reach }) => reach)).toEqual([null, 64, 64, null, 64]);
    const thetas = plain.map(({ rope }) => rope?.theta);
    expect(thetas).toEqual([160_000, 10_000, 10_000, 160_000, 10_000]);
  });

  test("is the same in the dialect of its first files", () => {
    const former = {
      ...{ ...modern, global_attn_every_n_layers: 3, local_attention: 128 },
      ...{ global_rope_theta: 160_000.0, local_rope_theta: 10_000.0 },
    };
    expect(encoderOf(former).spec).toEqual(encoderOf(modern).spec);
  });

  test("has as many layer types as layers", () => {
    const config = { ...modern, layer_types: ["full_attention"] };
    expect(() => describeModel(config)).toThrow("5 entries");
  });
});

describe("Nomic's BERT", () => {
  const nomic = { model_type: "nomic_bert", ...SIZES };

  test("is the same in the dialect of its first files", () => {
    const former = {
      ...{ model_type: "nomic_bert", n_embd: 48, n_inner: 96, n_layer: 5, n_head: 3 },
      ...{ vocab_size: 100, n_positions: 64, layer_norm_epsilon: 1e-12, rotary_emb_base: 1000 },
      ...{ activation_function: "swiglu", rotary_emb_fraction: 1.0, rotary_scaling_factor: null },
      ...{ rotary_emb_scale_base: null, prenorm: false, qkv_proj_bias: false, type_vocab_size: 2 },
    };
    expect(encoderOf(former).spec).toEqual(encoderOf(nomic).spec);
  });

  test("ends its texts where its angles would be stretched", () => {
    const stretched = { ...nomic, rotary_scaling_factor: 2, max_trained_positions: 32 };
    expect(encoderOf(stretched).spec.contextTokensMax).toBe(32);
  });

  test.each([
    ["prenorm", true],
    ["rotary_emb_interleaved", true],
    ["qkv_proj_bias", true],
    ["rotary_emb_scale_base", 512],
    ["activation_function", "gelu"],
  ])("with %s of %s is refused by that name", (field, value) => {
    expect(() => describeModel({ ...nomic, [field]: value })).toThrow(field);
  });
});

describe("RoBERTa", () => {
  test("has two positions fewer than its table, behind the padding's", () => {
    const { spec } = encoderOf({ model_type: "xlm-roberta", ...SIZES });
    expect(spec.contextTokensMax).toBe(62);
    expect(() =>
      describeModel({ model_type: "roberta", ...SIZES, max_position_embeddings: 2 }),
    ).toThrow("more than 2 positions");
  });

  test("counts tokens that are no padding, and gives padding its own position", () => {
    const { spec } = encoderOf({ model_type: "xlm-roberta", ...SIZES });
    const texts = { tokenIds: Int32Array.of(0, 7, 1, 8, 0, 9), starts: Int32Array.of(0, 4, 6) };
    expect([...encoderPositions(spec, texts)]).toEqual([2, 3, 1, 4, 2, 3]);
    const bert = encoderOf({ model_type: "bert", ...SIZES }).spec;
    expect([...encoderPositions(bert, texts)]).toEqual([0, 1, 2, 3, 0, 1]);
  });
});

describe("a head for pairs", () => {
  const bert = { model_type: "bert", ...SIZES };
  const architectures = ["BertForSequenceClassification"];
  const one = { id2label: { 0: "LABEL_0" } };

  test.each<[string, JsonConfig, boolean]>([
    ["a classifier of one label", { architectures, ...one }, true],
    ["the same by its count", { architectures, num_labels: 1 }, true],
    ["a classifier of two", { architectures, id2label: { 0: "a", 1: "b" } }, false],
    ["a classifier that does not say", { architectures }, false],
    ["a bare model of one label", { architectures: ["BertModel"], ...one }, false],
  ])("%s", (_, fields, has) => {
    expect(encoderOf({ ...bert, ...fields }).spec.head !== null).toBe(has);
  });
});
