import { expect, test } from "vitest";
import { describeModel } from "#models";

const config = {
  ...{ model_type: "llama", hidden_size: 32, intermediate_size: 32, num_hidden_layers: 1 },
  ...{ num_attention_heads: 2, vocab_size: 8, max_position_embeddings: 16 },
};

test.each(["constructor", "toString", "__proto__", "hasOwnProperty"])(
  "an activation called %s is refused like any other that there is not",
  (hidden_act) => {
    const describing = () => describeModel({ ...config, hidden_act });
    expect(describing).toThrow(expect.objectContaining({ code: "UNSUPPORTED_MODEL" }));
    expect(describing).toThrow(`hidden_act must be one of silu, swish, gelu`);
  },
);

test("a value of any size or depth makes a message of a line", () => {
  const deep: unknown = JSON.parse("[".repeat(100_000) + "]".repeat(100_000));
  for (const value of [deep, "x".repeat(1e6), Array.from({ length: 1e5 }, () => 1)]) {
    for (const field of ["hidden_size", "hidden_act", "model_type", "rope_scaling"]) {
      let message = "";
      try {
        describeModel({ ...config, [field]: value });
      } catch (error) {
        message = String(error);
      }
      expect(message).toContain(field);
      expect(message.length).toBeLessThan(700);
    }
  }
});
