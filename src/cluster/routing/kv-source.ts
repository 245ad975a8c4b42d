import type { Candidate, RoutingRequest, TransferAddress, WorkerInfo } from "#cluster/protocol";
import { prefixPlan } from "./kv-cost.ts";
import { queueMs } from "./load.ts";
import { computes } from "./served-model.ts";

/** A worker that gives keys and values of a prompt to the one that gets the request. */
export interface KvSourceChoice {
  readonly worker: WorkerInfo;
  readonly address: TransferAddress;
  /** It computes what it does not have; off: only what it has is fetched. */
  readonly compute: boolean;
  /** Prompt tokens that it computes. */
  readonly uncachedTokens: number;
  /** Prompt tokens that are left to the chosen worker. */
  readonly leftTokens: number;
  /** Who has more of the prompt: it is fetched there before the rest is computed; null: none. */
  readonly prefix: TransferAddress | null;
  readonly blockTokens: number;
}

/**
 * Shorter uncached ends of prompts are computed by the worker that decodes: a step with so many
 * tokens more takes little longer, and asking another worker takes a step as well.
 */
const LOCAL_TOKENS_MAX = 64;

/** Fewer tokens than these are not worth a transfer of their own. */
const FETCHED_TOKENS_MIN = 32;

/**
 * Where the chosen worker gets the keys and values of its prompt from; null: it computes what it
 * does not have. Of those that compute prompts for others, the one that has it first; else the
 * worker that has most of it.
 */
export function chooseKvSource(
  request: RoutingRequest,
  chosen: Candidate,
  others: readonly Candidate[],
): KvSourceChoice | null {
  const own = prefixPlan(request, chosen);
  const peers = othersOf(chosen, others);
  const prefills = peers.filter(({ info }) => info.role === "prefill");
  if (prefills.length > 0 && own.uncachedTokens > LOCAL_TOKENS_MAX) {
    const first = least(prefills, (peer) => readyMs(request, peer));
    return withMemory(request, choiceOf(request, first, true), others);
  }
  return storedChoice(request, chosen, peers);
}

/**
 * A worker that gives memory alone and has more of the prompt than the one that is to compute it:
 * that one fetches it there first. Unchanged where there is none.
 */
export function withMemory(
  request: RoutingRequest,
  choice: KvSourceChoice | null,
  others: readonly Candidate[],
): KvSourceChoice | null {
  if (choice?.compute !== true) return choice;
  const memory = others.filter(
    ({ info }) => !computes(info) && mayGive(info, choice.worker) && info.transfer !== undefined,
  );
  const most = least(memory, (peer) => prefixPlan(request, peer).uncachedTokens);
  const prefix = most?.info.transfer;
  if (most === null || prefix === undefined) return choice;
  const { uncachedTokens } = prefixPlan(request, most);
  if (choice.uncachedTokens - uncachedTokens < FETCHED_TOKENS_MIN) return choice;
  return { ...choice, uncachedTokens, prefix };
}

/** What is fetched where the worker that decodes computes the rest itself; null: nothing is. */
export function storedChoice(
  request: RoutingRequest,
  chosen: Candidate,
  peers: readonly Candidate[],
): KvSourceChoice | null {
  const own = prefixPlan(request, chosen);
  const most = least(peers, (peer) => prefixPlan(request, peer).uncachedTokens);
  const found = most === null ? 0 : own.uncachedTokens - prefixPlan(request, most).uncachedTokens;
  return found >= FETCHED_TOKENS_MIN ? choiceOf(request, most, false) : null;
}

/** Those that may give it blocks; of equals one that does nothing else is asked. */
function othersOf(chosen: Candidate, others: readonly Candidate[]): readonly Candidate[] {
  const peers = others.filter(({ info }) => mayGive(info, chosen.info));
  const memory = peers.filter(({ info }) => !computes(info));
  return [...memory, ...peers.filter(({ info }) => computes(info))];
}

/** Blocks mean the same to workers of one fingerprint only. */
export function mayGive(info: WorkerInfo, to: WorkerInfo): boolean {
  const isAlike = info.fingerprint !== null && info.fingerprint === to.fingerprint;
  const ways = info.transfer !== undefined && to.transfer !== undefined;
  return isAlike && ways && info.id !== to.id && info.kv?.blockTokens === to.kv?.blockTokens;
}

/** Until it has computed the prompt behind those that are there. */
function readyMs(request: RoutingRequest, peer: Candidate): number {
  const { computeMs, loadMs } = prefixPlan(request, peer);
  return queueMs(peer) + computeMs + loadMs;
}

export function choiceOf(
  request: RoutingRequest,
  peer: Candidate | null,
  compute: boolean,
): KvSourceChoice | null {
  const address = peer?.info.transfer;
  if (peer === null || address === undefined) return null;
  const { uncachedTokens } = prefixPlan(request, peer);
  const { info: worker, blockTokens } = peer;
  const given = { worker, address, compute, blockTokens, prefix: null };
  if (!compute) return { ...given, uncachedTokens: 0, leftTokens: uncachedTokens };
  return { ...given, uncachedTokens, leftTokens: Math.min(blockTokens, request.promptTokens) };
}

/** The first of those with the least cost; null where there is none. */
function least(peers: readonly Candidate[], cost: (peer: Candidate) => number): Candidate | null {
  let best: Candidate | null = null;
  let bestCost = Number.POSITIVE_INFINITY;
  for (const peer of peers) {
    const own = cost(peer);
    if (best !== null && own >= bestCost) continue;
    best = peer;
    bestCost = own;
  }
  return best;
}
