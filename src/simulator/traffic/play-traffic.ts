/** Plays traffic on a simulated clock: requests come by their times, or behind their answers. */
import type { SimClock } from "../sim-clock.ts";
import type { SimRequest } from "../sim-worker.ts";
import { promptOf, type TrafficVocabulary } from "./token-rule.ts";
import type { Traffic, TrafficRequest } from "./traffic.ts";

/** Where traffic goes. */
export interface TrafficSink {
  readonly clock: SimClock;
  /** That of the workers, so that conversations go on from their answers. */
  readonly vocabulary: TrafficVocabulary;
  /** Times of the traffic are divided by it. Default: 1. */
  readonly speedUp?: number;
  /** Takes a request that is due; `ended` is to be called once, when its answer is complete. */
  send(request: SimRequest, of: TrafficRequest, ended: () => void): void;
}

/**
 * Plans all requests: run the clock afterwards. Prompts are made when they are due. A request that
 * follows another comes `thinkMs` behind its answer, whenever that is.
 */
export function playTraffic({ requests }: Traffic, sink: TrafficSink): void {
  const { clock, vocabulary, speedUp = 1 } = sink;
  const followers = followersOf(requests);
  const send = (request: TrafficRequest) => {
    const { id, outputTokens } = request;
    const promptTokenIds = promptOf(request, vocabulary);
    sink.send({ id, promptTokenIds, outputTokens }, request, () => {
      for (const next of followers.get(id) ?? []) {
        clock.after(next.thinkMs / speedUp, () => send(next));
      }
    });
  };
  for (const request of requests) {
    if (request.after === null) clock.at(request.atMs / speedUp, () => send(request));
  }
}

function followersOf(
  requests: readonly TrafficRequest[],
): ReadonlyMap<string, readonly TrafficRequest[]> {
  const followers = new Map<string, TrafficRequest[]>();
  for (const request of requests) {
    if (request.after === null) continue;
    const known = followers.get(request.after) ?? [];
    followers.set(request.after, [...known, request]);
  }
  return followers;
}
