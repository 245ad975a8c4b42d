import type { Candidate, RoutingRequest } from "#cluster/protocol";
import { heldTokens, pairsOf, prefillMs, queueMs } from "./load.ts";

/** What the router has measured of its traffic: what a choice will mean to other requests. */
export interface TrafficOutlook {
  /** Tokens of a usual output. */
  readonly outputTokens: number;
  /** Cached tokens of all prompt tokens, 0 to 1. */
  readonly hitRate: number;
}

/** What a policy adds to the outlook from the fleet that it sees. */
export interface FleetOutlook extends TrafficOutlook {
  /** Requests of a usual candidate. */
  readonly requestsPerWorker: number;
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
  /** Prompts before it. */
  readonly queue: number;
  /** Its prompt's uncached tokens. */
  readonly compute: number;
  /** Its prompt's tokens from host memory and disk. */
  readonly load: number;
  /** Device time that its prompt takes from the requests that are or come there. */
  readonly share: number;
  /** What its new blocks push out will be computed again. */
  readonly refill: number;
  /** Its own steps, alone. */
  readonly decode: number;
  /** By how much it and those that decode there make each other's steps longer. */
  readonly crowd: number;
  /** Until there are blocks for it. */
  readonly memory: number;
}

/** A candidate's terms, and the plan that they are of. */
export interface KvCost {
  readonly plan: PrefixPlan;
  readonly terms: KvTerms;
  readonly cost: number;
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
    computeMs: prefillMs(speeds, uncachedTokens, pairsOf(request.promptTokens, uncachedTokens)),
    loadMs,
  };
}

/**
 * The time that this choice costs: the request itself until its first token and while it decodes,
 * and others by the device time that it takes. All terms are times, and so is their sum.
 *
 * Computing a prompt that another worker has is not the request's own loss alone. `share` counts
 * that device time again for those of a usual worker that it delays: the busier the fleet, the more
 * a hit is worth waiting for. It is the fleet's mean and not this worker's number, since a worker
 * that has a long queue today has none when what was displaced comes back; with the worker's own
 * number, holders of long conversations are avoided, and hits are lost. `refill`: a full cache
 * forgets a block for each that it gets, and a usual block is wanted again as often as prompts
 * have hits.
 */
export function kvCost(
  request: RoutingRequest,
  candidate: Candidate,
  outlook: FleetOutlook,
): KvCost {
  const plan = prefixPlan(request, candidate);
  const outputTokens = request.outputTokens ?? outlook.outputTokens;
  const terms: KvTerms = {
    queue: queueMs(candidate),
    compute: plan.computeMs,
    load: plan.loadMs,
    share: plan.computeMs * outlook.requestsPerWorker * DELAYED,
    refill: plan.computeMs * outlook.hitRate,
    ...decodeTerms(request, candidate, outputTokens),
    memory: memoryMs(request, candidate, outputTokens),
  };
  const cost = Object.values(terms).reduce((sum: number, ms: number) => sum + ms, 0);
  return { plan, terms, cost };
}

/**
 * Whom a prompt delays, in requests of a usual worker: those that are there; as they leave later,
 * those that come meanwhile; and those behind these. Simulated on Mooncake's conversations, 8
 * workers at 1 to 3 times the speed: counted once, prompts have 0.92 to 0.94 of the hits of one
 * endless cache; three times 0.96 to 0.98, and the last token comes as early. Four times adds a
 * tenth to the first token's p90 in a busy fleet, and no hits.
 */
const DELAYED = 3;

/**
 * Part of what a crowd costs that is foreseen. Those that decode now have half of their outputs
 * left, and half of that stays true where others come in their place. Simulated on Mooncake's
 * conversations: 0 loses a fifth of the time to the last token in a busy fleet, 1 a tenth of the
 * hits in an idle one.
 */
const CROWD_PART = 0.25;

function decodeTerms(
  request: RoutingRequest,
  candidate: Candidate,
  outputTokens: number,
): Pick<KvTerms, "decode" | "crowd"> {
  const { books, speeds } = candidate;
  const tokens = heldTokens(candidate);
  const own = request.promptTokens + outputTokens / 2;
  const alone = speeds.decodeMs(1, own);
  const before = speeds.decodeMs(books.requests, tokens);
  const after = speeds.decodeMs(books.requests + 1, tokens + own);
  const longer = after - alone + books.requests * Math.max(after - before, 0);
  return {
    decode: outputTokens * alone,
    crowd: CROWD_PART * outputTokens * Math.max(longer, 0),
  };
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
