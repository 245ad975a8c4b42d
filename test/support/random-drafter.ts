import { mkdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { type TensorToWrite, writeSafetensors } from "#checkpoint";
import { RandomNumbers } from "../contracts/device-ops/random.ts";

/** A ReDrafter's sizes, by the names of its config.json. */
export interface DrafterShape {
  readonly hidden_size: number;
  readonly vocab_size: number;
  readonly exit_dim: number;
  readonly num_draft_layers: number;
  readonly rnn: boolean;
}

/** Writes a ReDrafter with random float32 weights into a folder. */
export function writeRandomDrafter(folder: string, shape: DrafterShape, seed = 1): void {
  const { hidden_size: hidden, exit_dim: exit, num_draft_layers: blocks, vocab_size } = shape;
  const random = new RandomNumbers(seed);
  const tensor = (name: string, ...extents: number[]): TensorToWrite => {
    const count = extents.reduce((product, extent) => product * extent, 1);
    const values = random.floats(count, 1 / Math.sqrt(extents.at(-1) ?? 1));
    return { name, dtype: "f32", shape: extents, bytes: new Uint8Array(values.buffer) };
  };
  const tensors = [
    ...(shape.rnn
      ? [
          tensor("rnn_w.weight", hidden, hidden),
          tensor("rnn_u.weight", hidden, hidden),
          tensor("rnn_u.bias", hidden),
        ]
      : []),
    ...(exit === 2 * hidden
      ? []
      : [tensor("input_proj.weight", exit, 2 * hidden), tensor("input_proj.bias", exit)]),
    ...Array.from({ length: blocks }, (_, block) => [
      tensor(`lm_head.${block}.linear.weight`, exit, exit),
      tensor(`lm_head.${block}.linear.bias`, exit),
    ]).flat(),
    tensor(`lm_head.${blocks}.weight`, vocab_size, exit),
  ];
  mkdirSync(folder, { recursive: true });
  const config = { model_type: "recurrent_drafting_drafter", ...shape };
  writeFileSync(join(folder, "config.json"), JSON.stringify(config));
  writeSafetensors(join(folder, "model.safetensors"), tensors);
}
