import { at } from "#tensor";
import { tracedBeamsOf } from "../drafter-counts.ts";
import type { TraceBeamsInput } from "../ops.ts";
import { i32 } from "./host-tensor.ts";

/** The tokens of beams, followed from each level to the one before. */
export function traceBeams(input: TraceBeamsInput): void {
  const { length, stride } = input;
  const beams = tracedBeamsOf(input);
  const [levels, out] = [i32(input.levels), i32(input.out)];
  for (let beam = 0; beam < beams; beam++) {
    let row = beam;
    for (let level = length - 1; level >= 0; level--) {
      out[beam * length + level] = at(levels, 2 * level * stride + row);
      row = at(levels, (2 * level + 1) * stride + row);
    }
  }
}
