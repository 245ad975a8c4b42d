import type { Candidate, RoutingRequest } from "#cluster/protocol";
import { heldTokens, queueMs } from "./load.ts";

/** What the router has measured of its traffic: what a choice will mean to later requests. */
export interface TrafficOutlook {
  /** Requests that come to one worker, per ms. */
  readonly arrivalsPerWorkerMs: number;
  /** Tokens of a usual output. */
  readonly outputTokens: number;
}

/** Of which cached tokens a prompt would be computed from, and what that takes. */
export interface PrefixPlan {
  /** Prompt tokens that are computed. */
  readonly uncachedTokens: number;
  /** Prompt tokens that are brought from host memory or disk. */
  readonly loadedTokens: number;
  readonly computeMs: number;
  readonly loadMs: number;
}

/** Terms of the cost of one candidate, in ms. */
export interface KvTerms {
  readonly plan: PrefixPlan;
  readonly queue: number;
  readonly compute: number;
  readonly load: number;
  readonly decode: number;
  readonly stall: number;
  readonly behind: number;
  readonly memory: number;
}

/**
 * The fastest way to a computed prompt: what the device has is used, and each further level as far
 * as bringing a token is quicker than computing it. The last token is always computed.
 */
export function prefixPlan(request: RoutingRequest, candidate: Candidate): PrefixPlan {
  const { match, speeds, blockTokens } = candidate;
  const most = Math.max(request.promptTokens - 1, 0);
  const [device = 0, host = 0, any = 0] = match?.levels ?? [];
  const [deviceTokens, hostTokens, anyTokens] = [device, host, any].map((blocks) =>
    Math.min(blocks * blockTokens, most),
  ) as [number, number, number]; // map keeps the length
  const [hostMs, diskMs] = speeds.loadMsPerToken;
  let usedTokens = deviceTokens;
  let loadMs = 0;
  for (const [tokens, ms] of [
    [hostTokens, hostMs],
    [anyTokens, diskMs],
  ] as const) {
    // A prefix has no holes: what is not brought ends it.
    if (tokens > usedTokens && ms > speeds.prefillMsPerToken) break;
    loadMs += Math.max(tokens - usedTokens, 0) * ms;
    usedTokens = Math.max(usedTokens, tokens);
  }
  const uncachedTokens = request.promptTokens - usedTokens;
  return {
    uncachedTokens,
    loadedTokens: usedTokens - deviceTokens,
    computeMs: uncachedTokens * speeds.prefillMsPerToken,
    loadMs,
  };
}

/**
 * The time that all requests would lose by this choice: the request itself, until its first token
 * and while it decodes; those that decode there and wait for its prompt's steps; those that come
 * later and wait behind it. No term has a weight: a millisecond of one is a millisecond of another.
 */
export function kvTerms(
  request: RoutingRequest,
  candidate: Candidate,
  outlook: TrafficOutlook,
): KvTerms {
  const { books } = candidate;
  const plan = prefixPlan(request, candidate);
  const queue = queueMs(candidate);
  const outputTokens = request.outputTokens ?? outlook.outputTokens;
  const workMs = plan.computeMs + plan.loadMs;
  return {
    plan,
    queue,
    compute: plan.computeMs,
    load: plan.loadMs,
    decode: decodeMs(request, candidate, outputTokens),
    stall: plan.computeMs * books.decoding,
    behind: outlook.arrivalsPerWorkerMs * plan.computeMs * (queue + workMs / 2),
    memory: memoryMs(request, candidate, outputTokens),
  };
}

/** Its own steps, and by how much it makes the steps of the others longer. */
function decodeMs(request: RoutingRequest, candidate: Candidate, outputTokens: number): number {
  const { books, speeds } = candidate;
  const tokens = heldTokens(candidate);
  const own = request.promptTokens + outputTokens / 2;
  const before = speeds.decodeMs(books.requests, tokens);
  const after = speeds.decodeMs(books.requests + 1, tokens + own);
  return outputTokens * (after + books.requests * Math.max(after - before, 0));
}

/** Until others have given back the blocks that are missing, at the rate of usual outputs. */
function memoryMs(request: RoutingRequest, candidate: Candidate, outputTokens: number): number {
  const { books, blocks, blockTokens, speeds } = candidate;
  if (blocks === 0) return 0;
  const wanted = Math.ceil((request.promptTokens + outputTokens) / Math.max(blockTokens, 1));
  const missing = books.heldBlocks + wanted - blocks;
  if (missing <= 0 || books.heldBlocks === 0) return 0;
  const turnMs = outputTokens * speeds.decodeMs(books.requests, heldTokens(candidate));
  return (turnMs * Math.min(missing, books.heldBlocks)) / books.heldBlocks;
}
