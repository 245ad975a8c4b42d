import { at } from "#tensor";
import type { TraceBeamsInput } from "../ops.ts";
import { i32 } from "./host-tensor.ts";

/** The tokens of beams, followed from each level to the one before. */
export function traceBeams({ count, width, length, stride, ...rest }: TraceBeamsInput): void {
  const [levels, out] = [i32(rest.levels), i32(rest.out)];
  for (let beam = 0; beam < count * width; beam++) {
    let row = beam;
    for (let level = length - 1; level >= 0; level--) {
      out[beam * length + level] = at(levels, 2 * level * stride + row);
      row = at(levels, (2 * level + 1) * stride + row);
    }
  }
}
