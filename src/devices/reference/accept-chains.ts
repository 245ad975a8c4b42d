import { at } from "#tensor";
import type { AcceptChainsInput } from "../ops.ts";
import { i32 } from "./host-tensor.ts";

/** Of each chain, the first drafted tokens that are what was sampled in their place. */
export function acceptChains(input: AcceptChainsInput): void {
  const { count, placeRows } = input;
  const [ids, sampled, drafted] = [i32(input.ids), i32(input.sampled), i32(input.drafted)];
  const [firstIds, firstSampled] = [i32(input.firstIds), i32(input.firstSampled)];
  const [roots, places] = [i32(input.roots), i32(input.places)];
  for (let c = 0; c < count; c++) {
    const [id, sample] = [at(firstIds, c), at(firstSampled, c)];
    let accepted = 0;
    while (accepted < at(drafted, c) && at(ids, id + accepted) === at(sampled, sample + accepted)) {
      accepted++;
    }
    roots[c] = at(sampled, sample + accepted);
    for (let p = 0; p < placeRows; p++)
      places[p * count + c] = at(places, p * count + c) + accepted;
  }
}
