import { at } from "#tensor";
import type { MoveTokensInput } from "../ops.ts";
import { hostKvPool } from "./host-kv-pool.ts";
import { i32 } from "./host-tensor.ts";

/** The keys and values of all layers at moves[n][1] become those at moves[n][0], in order. */
export function moveTokens(input: MoveTokensInput): void {
  const cache = hostKvPool(input.cache);
  const moves = i32(input.moves);
  for (let move = 0; move < input.count; move++) {
    const [from, to] = [at(moves, 2 * move), at(moves, 2 * move + 1)];
    for (let layer = 0; layer < cache.layers; layer++) {
      for (let head = 0; head < cache.kvHeads; head++) {
        cache.key(layer, to, head).set(cache.key(layer, from, head));
        cache.value(layer, to, head).set(cache.value(layer, from, head));
      }
    }
  }
}
