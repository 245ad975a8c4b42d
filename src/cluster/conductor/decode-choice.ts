/** The choice of a decode instance: balanced by the predicted time between tokens. */
import { drawIndex, type Rng } from "#cluster/routing";
import type { InstanceNumber } from "./decision.ts";
import type { DecodeEstimator } from "./decode-estimator.ts";
import type { Instance } from "./instance-table.ts";

export interface DecodeSearch {
  readonly instances: readonly Instance[];
  /** Tokens that the request holds at its end, and in the middle of its output. */
  readonly heldTokens: number;
  readonly contextTokens: number;
  readonly estimatorOf: (kind: string) => DecodeEstimator;
  readonly rng: Rng;
  readonly barred: ReadonlySet<InstanceNumber> | null;
}

/** One decode instance as the choice weighs it. */
export interface DecodeTerms {
  readonly instance: InstanceNumber;
  /** Requests there: those that decode, and those that will. */
  readonly requests: number;
  /** Predicted with this request and all that will come. */
  readonly tbtMs: number;
  readonly hasRoom: boolean;
}

/** Null: no instance decodes. */
export function chooseDecode(search: DecodeSearch): DecodeTerms | null {
  // Of the best so far. Each request looks at all instances: a record is made of the chosen alone.
  let hasRoom = false;
  let tbtMs = 0;
  const tied: Instance[] = [];
  for (const instance of search.instances) {
    if (search.barred?.has(instance.number)) continue;
    const fits = hasRoomAt(search, instance);
    if (tied.length > 0 && hasRoom && !fits) continue;
    const ms = tbtMsAt(search, instance);
    const order = tied.length === 0 || fits !== hasRoom ? -1 : ms - tbtMs;
    if (order > 0) continue;
    if (order < 0) {
      hasRoom = fits;
      tbtMs = ms;
      tied.length = 0;
    }
    tied.push(instance);
  }
  const chosen = tied[drawIndex(search.rng, Math.max(tied.length, 1))];
  return chosen === undefined ? null : decodeTerms(search, chosen);
}

/** What the request would find at an instance. */
export function decodeTerms(search: DecodeSearch, instance: Instance): DecodeTerms {
  const [tbtMs, hasRoom] = [tbtMsAt(search, instance), hasRoomAt(search, instance)];
  return { instance: instance.number, requests: instance.decode.requests, tbtMs, hasRoom };
}

function tbtMsAt(search: DecodeSearch, { decode, kind }: Instance): number {
  const { estimatorOf, contextTokens } = search;
  return estimatorOf(kind).ms(decode.requests + 1, decode.tokens + contextTokens);
}

function hasRoomAt({ heldTokens }: DecodeSearch, { decode, kvTokens }: Instance): boolean {
  return kvTokens === 0 || decode.tokens + heldTokens <= kvTokens;
}
