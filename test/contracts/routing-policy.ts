/** What every routing policy promises, whatever it weighs. */
import { expect, test } from "vitest";
import type { Candidate, RoutingPolicy, RoutingRequest, WorkerSpeeds } from "#cluster";
import { createPolicy, type Rng, type RoutingPolicyName, seededRng } from "#cluster";

const SEEDS = [1, 2, 3];
const CHOICES = 400;

export const SPEEDS: WorkerSpeeds = {
  prefillMsPerToken: 0.1,
  decodeMs: (requests, tokens) => 5 + 0.1 * requests + 0.0001 * tokens,
  loadMsPerToken: [0.01, 0.2],
};

/** What a test says of a candidate. */
export interface CandidateCase {
  readonly id: string;
  readonly requests?: number;
  readonly uncachedTokens?: number;
  readonly heldBlocks?: number;
  readonly decoding?: number;
  /** Leading blocks by level. */
  readonly levels?: readonly [number, number, number];
  readonly speeds?: WorkerSpeeds;
  readonly blocks?: number;
}

export function candidateOf(given: CandidateCase): Candidate {
  const { id, requests = 0, uncachedTokens = 0, heldBlocks = 0, decoding = 0 } = given;
  return {
    info: {
      id,
      epoch: "1",
      url: `http://${id}`,
      kind: "perigee",
      version: "1",
      models: ["m"],
      fingerprint: null,
      contextTokensMax: 100_000,
      kv: { blockTokens: 16, blocks: [10_000], groupWindows: [null] },
    },
    books: { requests, uncachedTokens, uncachedPairs: 0, heldBlocks, decoding },
    speeds: given.speeds ?? SPEEDS,
    match: given.levels === undefined ? null : { worker: 0, levels: given.levels },
    blockTokens: 16,
    blocks: given.blocks ?? 10_000,
  };
}

export function requestOf(given: Partial<RoutingRequest> = {}): RoutingRequest {
  return { promptTokens: 1600, outputTokens: 100, session: null, prefixHash: [1, 2], ...given };
}

export function policyOf(name: RoutingPolicyName, seed = 1): RoutingPolicy {
  const outlook = () => ({ hitRate: 0.3, outputTokens: 100 });
  return createPolicy(name, { rng: seededRng(seed), outlook });
}

/** Fleets and requests by chance. */
function drawCase(rng: Rng): [RoutingRequest, Candidate[]] {
  const below = (limit: number) => Math.floor(rng.next() * limit);
  const candidates = Array.from({ length: 1 + below(12) }, (_, at) => {
    const device = below(100);
    const held = below(9000);
    return candidateOf({
      id: `w${at}`,
      requests: below(40),
      uncachedTokens: below(50_000),
      heldBlocks: held,
      decoding: below(20),
      ...(rng.next() < 0.5 ? { levels: [device, device + below(50), device + 50] as const } : {}),
    });
  });
  const session = rng.next() < 0.5 ? `s${below(10)}` : null;
  return [requestOf({ promptTokens: below(20_000), session }), candidates];
}

export function routingPolicyContract(name: RoutingPolicyName): void {
  test.for(SEEDS)(`[CL60] ${name} chooses a candidate, and changes none (seed %i)`, (seed) => {
    const rng = seededRng(seed);
    const policy = policyOf(name, seed);
    for (let choice = 0; choice < CHOICES; choice++) {
      const [request, candidates] = drawCase(rng);
      const before = JSON.stringify([request, candidates]);
      const { chosen, costs } = policy.choose(request, candidates);
      expect(candidates[chosen]).toBeDefined();
      expect([0, candidates.length]).toContain(costs.length);
      for (const { cost, terms } of costs) {
        expect(cost).toBeGreaterThanOrEqual(0);
        for (const term of Object.values(terms)) expect(term).toBeGreaterThanOrEqual(0);
      }
      expect(JSON.stringify([request, candidates])).toBe(before);
    }
  });

  test(`[CL60] ${name} says the same for the same seed`, () => {
    const runs = [1, 2].map(() => {
      const rng = seededRng(7);
      const policy = policyOf(name, 7);
      return Array.from({ length: CHOICES }, () => policy.choose(...drawCase(rng)));
    });
    expect(runs[0]).toEqual(runs[1]);
  });

  test(`[CL60] ${name} has one worker do all where there is one`, () => {
    const policy = policyOf(name);
    const only = [candidateOf({ id: "a", requests: 500, uncachedTokens: 1e9, heldBlocks: 1e6 })];
    for (let turn = 0; turn < 5; turn++) expect(policy.choose(requestOf(), only).chosen).toBe(0);
  });

  test(`[CL61] ${name} spreads prompts that have nothing in common over equal idle workers`, () => {
    const policy = policyOf(name);
    const counts = new Map<number, number>();
    const rng = seededRng(3);
    for (let turn = 0; turn < 800; turn++) {
      const idle = Array.from({ length: 8 }, (_, at) => candidateOf({ id: `w${at}` }));
      const hash = [rng.next() * 2 ** 32, rng.next() * 2 ** 32] as const;
      const request = requestOf({ prefixHash: hash, session: `s${turn}` });
      const { chosen } = policy.choose(request, idle);
      counts.set(chosen, (counts.get(chosen) ?? 0) + 1);
    }
    expect(counts.size).toBe(8);
    expect(Math.max(...counts.values())).toBeLessThan(200);
  });
}
