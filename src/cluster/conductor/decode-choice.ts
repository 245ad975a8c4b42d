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
  let best: DecodeTerms | null = null;
  let tied: DecodeTerms[] = [];
  for (const instance of search.instances) {
    if (search.barred?.has(instance.number)) continue;
    const terms = decodeTerms(search, instance);
    const order: number = best === null ? -1 : compare(terms, best);
    if (order > 0) continue;
    if (order < 0) {
      best = terms;
      tied = [];
    }
    tied.push(terms);
  }
  return tied[drawIndex(search.rng, Math.max(tied.length, 1))] ?? null;
}

/** What the request would find at an instance. */
export function decodeTerms(search: DecodeSearch, instance: Instance): DecodeTerms {
  const { decode, kvTokens, kind } = instance;
  const requests = decode.requests + 1;
  const tbtMs = search.estimatorOf(kind).ms(requests, decode.tokens + search.contextTokens);
  const hasRoom = kvTokens === 0 || decode.tokens + search.heldTokens <= kvTokens;
  return { instance: instance.number, requests: decode.requests, tbtMs, hasRoom };
}

function compare(a: DecodeTerms, b: DecodeTerms): number {
  if (a.hasRoom !== b.hasRoom) return a.hasRoom ? -1 : 1;
  return a.tbtMs - b.tbtMs;
}
