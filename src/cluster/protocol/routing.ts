/** The contract of routing policies: who gets a request, and why. */
import type { PrefixMatch } from "./prefix-lookup.ts";
import type { WorkerInfo } from "./worker.ts";

/** What a policy knows of a request. */
export interface RoutingRequest {
  readonly promptTokens: number;
  /** Expected output tokens; null: unknown. */
  readonly outputTokens: number | null;
  /** Of the `session` header; null: none. */
  readonly session: string | null;
  /** A stable 64-bit hash of the leading text or tokens, as two 32-bit numbers. */
  readonly prefixHash: readonly [number, number];
}

/** Work that was handed to a worker and has not ended, as the router counts it. */
export interface WorkerBooks {
  readonly requests: number;
  /** Prompt tokens that are still to be computed. */
  readonly uncachedTokens: number;
  /** Pairs of these with the tokens before them: attention's part of the work. */
  readonly uncachedPairs: number;
  /** Blocks that running requests hold, from their tokens. */
  readonly heldBlocks: number;
  /** Requests whose first token has come: those that decode. */
  readonly decoding: number;
}

/** Measured speeds of one worker: every term of a cost is a time. */
export interface WorkerSpeeds {
  /** Of one prompt token that is computed, its attention left out. */
  readonly prefillMsPerToken: number;
  /** Of one pair of such a token with a token before it; absent: 0. */
  readonly prefillMsPerPair?: number;
  /** Of a step that decodes `requests` sequences of `tokens` tokens of context in all. */
  readonly decodeMs: (requests: number, tokens: number) => number;
  /** Of bringing one token's keys and values to the device from levels 1 and 2. */
  readonly loadMsPerToken: readonly [number, number];
}

/** A worker that may take the request. */
export interface Candidate {
  readonly info: WorkerInfo;
  readonly books: WorkerBooks;
  readonly speeds: WorkerSpeeds;
  /** What it has of the prompt; null: nothing, or unknown. */
  readonly match: PrefixMatch | null;
  readonly blockTokens: number;
  /** Blocks of the device; 0: unknown. */
  readonly blocks: number;
}

/** One worker's terms of the cost, in milliseconds, for `explain`. */
export interface CandidateCost {
  readonly workerId: string;
  /** What the policy minimises. */
  readonly cost: number;
  readonly terms: Readonly<Record<string, number>>;
}

/** A policy's choice. */
export interface RoutingChoice {
  /** Index into the candidates. */
  readonly chosen: number;
  /** One per candidate, where the policy weighs them; empty where it does not. */
  readonly costs: readonly CandidateCost[];
  /** One word of the policy: `prefix`, `load`, `spill`, `tie`, `session`, `chance`, `turn`. */
  readonly reason: string;
}

/** Chooses; keeps no state of requests, but may of turns. Never given an empty list. */
export interface RoutingPolicy {
  readonly name: string;
  /** Whether `choose` reads `match`: others spare the look-up. */
  readonly readsPrefixes: boolean;
  choose(request: RoutingRequest, candidates: readonly Candidate[]): RoutingChoice;
}
