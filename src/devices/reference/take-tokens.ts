import { at } from "#tensor";
import type { TakeTokensInput } from "../ops.ts";
import { i32 } from "./host-tensor.ts";

/** ids[t] = sampled[sources[t]] where sources[t] >= 0. */
export function takeTokens(input: TakeTokensInput): void {
  const ids = i32(input.ids);
  const sampled = i32(input.sampled);
  const sources = i32(input.sources);
  for (let t = 0; t < input.count; t++) {
    const source = at(sources, t);
    if (source >= 0) ids[t] = at(sampled, source);
  }
}
