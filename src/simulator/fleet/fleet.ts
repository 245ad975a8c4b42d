import {
  Dispatcher,
  FleetIndex,
  HitCeiling,
  hashText,
  IndexedPrefixes,
  type Member,
  type Membership,
  type PromptBlocks,
  type Routed,
  type RoutingPolicyName,
  seededRng,
  type WorkerInfo,
  type WorkerNumber,
} from "#cluster";
import type { CostModel } from "#engine/mock";
import { SimClock } from "../sim-clock.ts";
import { type SimListener, SimWorker } from "../sim-worker.ts";
import type { Traffic, TrafficRequest } from "../traffic/index.ts";
import { fleetPrompt } from "./fleet-prompts.ts";
import { type FleetResult, FleetStats } from "./fleet-result.ts";

/** A fleet of equal workers behind one router. */
export interface FleetOptions {
  readonly workers: number;
  readonly policy: RoutingPolicyName;
  readonly model: CostModel;
  readonly blockTokens: number;
  /** Of each worker, by level. */
  readonly blocks: readonly [number, number, number];
  readonly traffic: Traffic;
  /** Arrivals are so many times as frequent; answers and thinking take the same. Default: 1. */
  readonly speedUp?: number;
  /** Of ties and chance in policies. */
  readonly seed: number;
  /** Between a worker's change and the router's knowledge of it, in ms. Default: 5. */
  readonly eventDelayMs?: number;
  /** Leading tokens whose hash `prefix-hash` follows. Default: 1024. */
  readonly prefixHashTokens?: number;
}

const EVENT_DELAY_MS = 5;
const PREFIX_HASH_TOKENS = 1024;

/**
 * Runs traffic through a fleet on a simulated clock: the production policies, books, index,
 * schedulers and caches, and steps that take the time of a cost model. The same options give the
 * same result.
 */
export function runFleet(options: FleetOptions): FleetResult {
  return new Fleet(options).run();
}

class Fleet {
  readonly #options: FleetOptions;
  readonly #clock = new SimClock();
  readonly #ceiling = new HitCeiling();
  readonly #index = new FleetIndex({
    clock: this.#clock,
    onStored: (_, keys) => this.#ceiling.stored(keys),
  });
  readonly #workers = new Map<string, SimWorker>();
  readonly #numbers = new Map<string, WorkerNumber>();
  readonly #stats = new FleetStats();
  readonly #dispatcher: Dispatcher;
  /** Requests that wait for another's answer, by its id. */
  readonly #followers = new Map<string, TrafficRequest[]>();
  #next = 0;
  #lastArrivalMs = 0;
  #endMs = 0;

  constructor(options: FleetOptions) {
    this.#options = options;
    for (let at = 0; at < options.workers; at++) this.#addWorker(`w${at}`);
    const { model, blockTokens } = options;
    const placeOf = ({ id }: WorkerInfo) => {
      const number = this.#numbers.get(id);
      if (number === undefined) return null;
      const place = { lookup: this.#index, number, model: model.name, blockTokens };
      const routed = (prompt: PromptBlocks) => this.#index.routed(number, prompt);
      return { ...place, announces: true, routed };
    };
    this.#dispatcher = new Dispatcher({
      membership: fixedMembers([...this.#workers.values()].map(({ info }) => info)),
      prefixes: new IndexedPrefixes({ placeOf, clock: this.#clock, ledger: this.#ceiling }),
      policy: options.policy,
      clock: this.#clock,
      rng: seededRng(options.seed),
    });
  }

  run(): FleetResult {
    for (const request of this.#options.traffic.requests) {
      if (request.after === null) continue;
      const others = this.#followers.get(request.after) ?? [];
      this.#followers.set(request.after, [...others, request]);
    }
    this.#arrive();
    this.#clock.run();
    return this.#stats.result(this.#options.policy, {
      busyMs: [...this.#workers.values()].map(({ busyMs }) => busyMs),
      lastArrivalMs: this.#lastArrivalMs,
      endMs: this.#endMs,
      openReservations: this.#dispatcher.books.openCount,
      ceiling: this.#ceiling.stats(),
    });
  }

  #addWorker(id: string): void {
    const { model, blockTokens, blocks, eventDelayMs = EVENT_DELAY_MS } = this.#options;
    const number = this.#index.join({ announces: true });
    this.#numbers.set(id, number);
    const worker = new SimWorker({
      ...{ id, clock: this.#clock, model, blockTokens, blocks },
      scheduler: { waitingSequencesMax: 1_000_000 },
      onChanges: (changes) => {
        this.#clock.after(eventDelayMs, () => this.#index.apply(number, changes));
      },
    });
    this.#workers.set(id, worker);
  }

  /** One event at a time: prompts are made when they come. */
  #arrive(): void {
    const { traffic, speedUp = 1 } = this.#options;
    let due = traffic.requests[this.#next++];
    while (due !== undefined && due.after !== null) due = traffic.requests[this.#next++];
    if (due === undefined) return;
    const request = due;
    this.#clock.at(request.atMs / speedUp, () => {
      this.#send(request);
      this.#arrive();
    });
  }

  #send(request: TrafficRequest): void {
    const prompt = fleetPrompt(request);
    const tokens = Uint32Array.from(prompt);
    const hashed = tokens.subarray(0, this.#options.prefixHashTokens ?? PREFIX_HASH_TOKENS);
    const routed = this.#dispatcher.route({
      ...{ tokens, salt: null, lora: null, model: null, excluded: NONE_EXCLUDED },
      promptTokens: tokens.length,
      outputTokens: null,
      session: request.session,
      prefixHash: hashText(String.fromCharCode(...hashed)),
    });
    this.#lastArrivalMs = this.#clock.nowMs();
    if (routed.type === "unrouted") return;
    this.#stats.chosen(routed.choice.reason);
    this.#workers
      .get(routed.worker.id)
      ?.submit(
        { id: request.id, promptTokenIds: prompt, outputTokens: request.outputTokens },
        this.#listener(request, routed),
      );
  }

  #listener({ id }: TrafficRequest, { reservation, served }: Routed): SimListener {
    return {
      firstToken: () => reservation.firstToken(),
      tokens: (count) => reservation.tokens(count),
      end: (outcome) => {
        served(outcome.cachedTokens);
        reservation.end("ended");
        this.#dispatcher.traffic.ended(outcome.outputTokens);
        this.#endMs = outcome.endMs;
        this.#stats.ended(outcome);
        for (const next of this.#followers.get(id) ?? []) {
          this.#clock.after(next.thinkMs, () => this.#send(next));
        }
      },
    };
  }
}

const NONE_EXCLUDED: ReadonlySet<string> = new Set();

function fixedMembers(infos: readonly WorkerInfo[]): Membership {
  const members = infos.map((info): [string, Member] => [info.id, { info, state: "ready" }]);
  return {
    workers: new Map(members),
    heardMs: 0,
    listen: () => () => {},
    learnRole: () => {},
    close: async () => {},
  };
}
