/** A dispatcher with a conductor over workers that a test makes, by a clock that it turns. */
import {
  ConductorConfig,
  type DecisionRecord,
  Dispatcher,
  type DispatchRequest,
  FleetConductor,
  type Member,
  type Membership,
  type MembershipListener,
  type Routed,
  seededRng,
  type WorkerInfo,
  type WorkerRole,
} from "#cluster";
import { candidateOf } from "../../contracts/routing-policy.ts";

class HandClock {
  #ms = 0;

  nowMs(): number {
    return this.#ms;
  }

  advance(ms: number): void {
    this.#ms += ms;
  }
}

class HandMembers implements Membership {
  readonly workers = new Map<string, Member>();
  heardMs: number | null = 0;
  readonly #listeners = new Set<MembershipListener>();

  listen(listener: MembershipListener): () => void {
    this.#listeners.add(listener);
    return () => this.#listeners.delete(listener);
  }

  set(info: WorkerInfo, state: Member["state"] = "ready"): void {
    const isNew = !this.workers.has(info.id);
    this.workers.set(info.id, { info, state });
    for (const each of this.#listeners) {
      isNew ? each.joined({ info, state }) : each.changed({ info, state });
    }
  }

  leave(id: string): void {
    this.workers.delete(id);
    for (const each of this.#listeners) each.left(id, "gone");
  }

  learnRole(): void {}

  async close(): Promise<void> {}
}

/** Where a worker gives keys and values. */
export function transferOf(id: string) {
  return { host: "127.0.0.1", port: 1000 + id.charCodeAt(0) * 10 + Number(id.slice(1)) };
}

export function workerOf(id: string, role: WorkerRole = "both"): WorkerInfo {
  return {
    ...{ ...candidateOf({ id }).info, fingerprint: "f", role },
    kv: { blockTokens: 16, blocks: [10_000], groupWindows: [null] },
    transfer: transferOf(id),
  };
}

export interface SeenService {
  readonly decisions: DecisionRecord[];
  readonly firstTokens: (readonly [number, number | null])[];
  readonly gaps: (readonly [number, number | null])[];
}

/** `roles`: `p1` computes prompts, `d1` decodes, `b1` does both, `m1` gives memory alone. */
export function liveFleet(
  ids: readonly string[],
  settings: Record<string, unknown> = {},
  held: Readonly<Record<string, number>> = {},
) {
  const clock = new HandClock();
  const membership = new HandMembers();
  const roles = { p: "prefill", d: "decode", b: "both", m: "kv" } as const;
  for (const id of ids) membership.set(workerOf(id, roles[id[0] as keyof typeof roles]));
  const seen: SeenService = { decisions: [], firstTokens: [], gaps: [] };
  const conductor = new FleetConductor({
    ...{ membership, clock, rng: seededRng(1), usesPools: true },
    config: ConductorConfig.parse({ policy: "local", ...settings }),
    watch: {
      decided: (record) => seen.decisions.push(record),
      firstToken: (ms, deadlineMs) => seen.firstTokens.push([ms, deadlineMs]),
      gap: (ms, deadlineMs) => seen.gaps.push([ms, deadlineMs]),
    },
  });
  const dispatcher = new Dispatcher({
    ...{ membership, policy: "kv", clock, rng: seededRng(1), planner: conductor },
    prefixes: {
      find: (_query: unknown, workers: readonly WorkerInfo[]) =>
        workers.map(({ id }) => {
          const blocks = held[id] ?? 0;
          return blocks === 0 ? null : { levels: [blocks, blocks, blocks], depth: blocks };
        }) as never,
      routed: () => ({ computed: () => {}, dropped: () => {} }) as never,
      served: () => {},
    } as never,
    room: { waitMsMax: 2000, requestsMax: null },
  });
  return { clock, membership, conductor, dispatcher, seen };
}

export type LiveFleet = ReturnType<typeof liveFleet>;

export function requestOf(id: string, given: Partial<DispatchRequest> = {}): DispatchRequest {
  return {
    ...{ id, model: null, promptTokens: 1000, outputTokens: 100, session: null },
    ...{ prefixHash: [1, 2], tokens: null, salt: null, lora: null, mayFetch: true },
    ...{ excluded: new Set<string>() },
    ...given,
  } as DispatchRequest;
}

export function route(fleet: LiveFleet, id: string, given: Partial<DispatchRequest> = {}): Routed {
  const found = fleet.dispatcher.route(requestOf(id, given));
  if (found.type === "unrouted") throw new Error(`unrouted: ${found.reason}`);
  return found;
}

/** Runs a request alone: a ms per prompt token, then `outputTokens` of `gapMs` each. */
export function serve(
  { clock }: LiveFleet,
  { reservation }: Routed,
  { outputTokens = 20, gapMs = 10, prefillMs = reservation.promptTokens } = {},
): void {
  clock.advance(prefillMs);
  reservation.tokens(1);
  for (let at = 1; at < outputTokens; at++) {
    clock.advance(gapMs);
    reservation.tokens(1);
  }
  reservation.end("ended");
}

/** Ten requests of several lengths, one behind the other: predictions stand on them. */
export function warmUp(fleet: LiveFleet): void {
  for (let at = 0; at < 12; at++) {
    serve(fleet, route(fleet, `warm ${at}`, { promptTokens: 500 + 250 * (at % 5) }));
  }
}
