import { expect, onTestFinished, test } from "vitest";
import { openCheckpoint } from "#checkpoint";
import { decodeFloats } from "#tensor";
import { GGUF_FILE_TYPES, randomGguf } from "../support/random-gguf.ts";
import { scratchFolder } from "./scratch-folder.ts";

test.each(GGUF_FILE_TYPES)(
  "a random model of %s has weights of the wanted spread around 0",
  (type) => {
    const checkpoint = openCheckpoint(randomGguf(scratchFolder(), type));
    onTestFinished(() => checkpoint.close());
    const matrices = [...checkpoint.tensors.values()].filter(({ shape }) => shape.length === 2);
    expect(matrices).toHaveLength(1 + 2 * 7);
    for (const weight of matrices) {
      const values = decodeFloats(weight.bytes(), weight.dtype);
      const mean = values.reduce((sum, value) => sum + value, 0) / values.length;
      const square = values.reduce((sum, value) => sum + value * value, 0) / values.length;
      expect(Math.abs(mean), weight.name).toBeLessThan(0.002);
      expect(Math.sqrt(square), weight.name).toBeGreaterThan(0.018);
      expect(Math.sqrt(square), weight.name).toBeLessThan(0.022);
    }
  },
);

test("a mixture has more bits where llama.cpp gives more", () => {
  const checkpoint = openCheckpoint(randomGguf(scratchFolder(), "q4_k_m"));
  onTestFinished(() => checkpoint.close());
  const stored = (name: string) => checkpoint.tensors.get(name)?.storedAs;
  expect(stored("model.embed_tokens.weight")).toBe("Q6_K");
  expect(stored("model.layers.0.mlp.down_proj.weight")).toBe("Q4_K");
  expect(stored("model.layers.1.mlp.down_proj.weight")).toBe("Q6_K");
  expect(stored("model.layers.1.self_attn.v_proj.weight")).toBe("Q6_K");
  expect(stored("model.layers.1.self_attn.q_proj.weight")).toBe("Q4_K");
});
