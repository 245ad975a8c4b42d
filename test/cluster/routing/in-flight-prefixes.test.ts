import { expect, test } from "vitest";
import {
  InFlightPrefixes,
  type PromptInFlight,
} from "../../../src/cluster/routing/in-flight-prefixes.ts";
import { dice } from "../../support/nasty-events.ts";

/** Names of blocks, each of which depends on all before it: of few letters, so that many share. */
function keysOf(letters: readonly number[]): Uint32Array {
  let name = 7;
  return Uint32Array.from(
    letters.flatMap((letter) => {
      name = (Math.imul(name, 31) + letter + 1) >>> 0;
      return [name, letter];
    }),
  );
}

test.for([1, 2, 3, 4])("[CL69] what is on its way counts until it is over (seed %i)", (seed) => {
  const below = dice(seed);
  let nowMs = 0;
  const prefixes = new InFlightPrefixes({ nowMs: () => nowMs });
  type Prompt = { keys: Uint32Array; worker: string; untilMs: number; flight: PromptInFlight };
  let known: Prompt[] = [];
  const blockAt = (keys: Uint32Array, at: number) => keys.subarray(2 * at, 2 * at + 2).join();
  for (let step = 0; step < 500; step++) {
    nowMs += below(300);
    const worker = `w${below(3)}`;
    const keys = keysOf(Array.from({ length: below(6) }, () => below(2)));
    const flight = prefixes.add(worker, keys);
    known = known.filter(({ untilMs }) => untilMs > nowMs);
    known.push({ keys, worker, untilMs: Infinity, flight });
    const one = known[below(known.length)];
    if (one !== undefined && one.untilMs === Infinity && below(2) === 0) {
      one.flight.computed();
      one.flight.dropped();
      one.untilMs = nowMs + 2000;
    } else if (one !== undefined && one.untilMs === Infinity) {
      one.flight.dropped();
      known.splice(known.indexOf(one), 1);
    }
    const asked = keysOf(Array.from({ length: 6 }, () => below(2)));
    const of = known.filter((each) => each.worker === worker);
    let wanted = 0;
    const has = (at: number) => of.some((each) => blockAt(each.keys, at) === blockAt(asked, at));
    while (wanted < 6 && has(wanted)) wanted++;
    expect(prefixes.leadingBlocks(worker, asked)).toBe(wanted);
    expect(prefixes.blockCount).toBe(known.reduce((sum, each) => sum + each.keys.length / 2, 0));
  }
});
