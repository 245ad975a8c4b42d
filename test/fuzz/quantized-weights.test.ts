import { expect, test } from "vitest";
import { elementCount } from "#tensor";
import { weightQuantization } from "../../src/checkpoint/quantization-config.ts";
import { wholeWeights } from "../../src/checkpoint/quantized-weights.ts";
import { readSafetensors } from "../../src/checkpoint/safetensors.ts";
import { MemoryFile } from "../checkpoint/memory-file.ts";
import { RECORDED_MODULES, safetensorsOf } from "../checkpoint/quantized-folder.ts";
import { drawsOf, MUTANTS, mutate, survives } from "./file-mutants.ts";

const FILE = "mutant.safetensors";

test.each([...RECORDED_MODULES].map(([name, module], seed) => ({ name, module, seed })))(
  "mutated files of a module ($name) load or are refused (seed $seed)",
  ({ module, seed }) => {
    const parts = Object.entries(module.tensors);
    const tensors = new Map(parts.map(([part, tensor]) => [`m.${part}`, tensor]));
    const source = safetensorsOf(tensors);
    const headBytes = source.length - parts.reduce((sum, [, { bytes }]) => sum + bytes.length, 0);
    const scheme = weightQuantization(FILE, { quantization_config: module.config });
    if (scheme === null) throw new Error("a scheme is wanted");
    const draw = drawsOf(seed);
    let loaded = 0;
    for (let mutant = 0; mutant < MUTANTS / 20; mutant++) {
      // Half of them have another head, the others anything else.
      const within = mutant % 2 === 0 ? headBytes : source.length;
      const file = new MemoryFile(mutate(source, within, draw), FILE);
      const isRead = survives(file, () => {
        const { weights, integers } = readSafetensors(file);
        const whole = wholeWeights({ path: FILE, tensors: weights, integers }, scheme);
        for (const weight of whole.tensors.values()) {
          const { length } = weight.bytes();
          if (weight.dtype === "f32") expect(length).toBe(4 * elementCount(weight.shape));
          const { packed } = weight;
          if (packed === undefined) continue;
          const blocks = packed.blocks().length / packed.blockBytes;
          expect(blocks * packed.blockElements).toBe(elementCount(weight.shape));
        }
      });
      if (isRead) loaded += 1;
    }
    expect(loaded).toBeGreaterThan(0);
  },
);
