/** Fields that a config leaves out mean what transformers makes of them: held against recordings. */
import { readFileSync } from "node:fs";
import { describe, expect, test } from "vitest";
import {
  describeModel,
  type JsonConfig,
  modelTypes,
  type RopeSpec,
  ropeAttentionFactor,
  ropeFrequencies,
} from "#models";

interface Recorded {
  readonly configs: Readonly<
    Record<string, { readonly given: JsonConfig; readonly made: JsonConfig }>
  >;
  readonly ropes: Readonly<
    Record<
      string,
      {
        readonly given: JsonConfig;
        /** By the length of the sequence. */
        readonly frequencies: Readonly<Record<string, readonly number[]>>;
        readonly attention_factor: number;
      }
    >
  >;
}

const recorded: Recorded = JSON.parse(
  readFileSync(new URL("../../fixtures/config-defaults.json", import.meta.url), "utf8"),
);
const { configs, ropes } = recorded;

/** A float32 holds 24 bits; orders of multiplication differ. */
const RELATIVE_ERROR_MAX = 3e-7;

function ropeOf(config: JsonConfig): RopeSpec {
  const model = describeModel(config);
  if (model.kind !== "decoder" || model.spec.positions.kind !== "rope") throw new Error("No rope");
  return model.spec.positions;
}

/** A model's description with the names of all layers. */
function plainly(config: JsonConfig) {
  const { kind, spec, names } = describeModel(config);
  const { layer, ...others } = names;
  const layerNames = spec.layers.map((_, index) => withoutExperts(layer(index)));
  return { kind, spec, others, layerNames };
}

/** The names of a router's experts are a function. */
function withoutExperts(names: object): object {
  return JSON.parse(JSON.stringify(names));
}

describe("a config that leaves fields out describes what transformers makes of it", () => {
  test.each(Object.keys(configs))("%s", (name) => {
    const { given, made } = configs[name] ?? { given: {}, made: {} };
    expect(plainly(given)).toEqual(plainly(made));
  });

  test("every family is recorded", () => {
    const types = Object.values(configs).map(({ given }) => given.model_type);
    expect([...new Set(types)].toSorted()).toEqual(modelTypes);
  });
});

describe("rope turns as in transformers", () => {
  test.each(Object.keys(ropes))("%s", (name) => {
    const { given = {}, frequencies = {}, attention_factor: factor } = ropes[name] ?? {};
    const rope = ropeOf(given);
    for (const [tokens, expected] of Object.entries(frequencies)) {
      const actual = ropeFrequencies(rope, Number(tokens));
      expect(actual).toHaveLength(expected.length);
      for (const [place, frequency] of actual.entries()) {
        const error = Math.abs(frequency / (expected[place] ?? Number.NaN) - 1);
        expect(error).toBeLessThan(RELATIVE_ERROR_MAX);
      }
    }
    expect(ropeAttentionFactor(rope)).toBeCloseTo(factor ?? Number.NaN, 12);
  });
});

test("Gemma 2 without caps in its config has caps of 50 and 30, and none where they are null", () => {
  const { given = {} } = configs.gemma2 ?? {};
  const without = { attn_logit_softcapping: null, final_logit_softcapping: null };
  expect(describeModel(given).spec).toMatchObject({ attentionSoftcap: 50, finalSoftcap: 30 });
  const none = { attentionSoftcap: null, finalSoftcap: null };
  expect(describeModel({ ...given, ...without }).spec).toMatchObject(none);
});

test("Qwen 2 with windows and no max_window_layers has them from layer 28 on", () => {
  const { given = {} } = configs["qwen2 with windows"] ?? {};
  const model = describeModel(given);
  if (model.kind !== "decoder") throw new Error("A decoder is wanted");
  const windows = model.spec.layers.map(({ window }) => window);
  expect(windows).toEqual([...Array(28).fill(null), 4096, 4096, 4096, 4096]);
});

test("rope that differs from layer to layer is refused", () => {
  const { given = {} } = configs.gemma2 ?? {};
  const rope_parameters = { sliding_attention: { rope_theta: 1e4 }, full_attention: {} };
  const layer_types = Array(32).fill("full_attention");
  expect(() => describeModel({ ...given, layer_types, rope_parameters })).toThrow("same for all");
});
