import {
  Dispatcher,
  hashText,
  IndexedPrefixes,
  KvIndex,
  type Member,
  type Membership,
  type RoutingPolicyName,
  seededRng,
  type WorkerInfo,
  type WorkerNumber,
} from "#cluster";
import type { CostModel } from "#engine/mock";
import { SimClock } from "../sim-clock.ts";
import { SimWorker } from "../sim-worker.ts";
import { type FleetResult, FleetStats } from "./fleet-result.ts";
import type { FleetRequest, FleetTraffic } from "./fleet-traffic.ts";

/** A fleet of equal workers behind one router. */
export interface FleetOptions {
  readonly workers: number;
  readonly policy: RoutingPolicyName;
  readonly model: CostModel;
  readonly blockTokens: number;
  /** Of each worker, by level. */
  readonly blocks: readonly [number, number, number];
  readonly traffic: FleetTraffic;
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
  readonly #index = new KvIndex();
  readonly #workers = new Map<string, SimWorker>();
  readonly #numbers = new Map<string, WorkerNumber>();
  readonly #stats = new FleetStats();
  readonly #dispatcher: Dispatcher;
  #next = 0;
  #endMs = 0;

  constructor(options: FleetOptions) {
    this.#options = options;
    for (let at = 0; at < options.workers; at++) this.#addWorker(`w${at}`);
    const { model, blockTokens } = options;
    const placeOf = ({ id }: WorkerInfo) => {
      const number = this.#numbers.get(id);
      if (number === undefined) return null;
      return { lookup: this.#index, number, model: model.name, blockTokens };
    };
    this.#dispatcher = new Dispatcher({
      membership: fixedMembers([...this.#workers.values()].map(({ info }) => info)),
      prefixes: new IndexedPrefixes(placeOf, this.#clock),
      policy: options.policy,
      clock: this.#clock,
      rng: seededRng(options.seed),
    });
  }

  run(): FleetResult {
    const { requests } = this.#options.traffic;
    this.#arrive();
    this.#clock.run();
    return this.#stats.result(this.#options.policy, {
      busyMs: [...this.#workers.values()].map(({ busyMs }) => busyMs),
      lastArrivalMs: requests.at(-1)?.atMs ?? 0,
      endMs: this.#endMs,
      openReservations: this.#dispatcher.books.openCount,
    });
  }

  #addWorker(id: string): void {
    const { model, blockTokens, blocks, eventDelayMs = EVENT_DELAY_MS } = this.#options;
    const number = this.#index.join();
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
    const due = this.#options.traffic.requests[this.#next];
    if (due === undefined) return;
    this.#clock.at(due.atMs, () => {
      this.#next++;
      this.#send(due.make(), `r${this.#next}`);
      this.#arrive();
    });
  }

  #send(request: FleetRequest, id: string): void {
    const tokens = Uint32Array.from(request.tokens);
    const hashed = tokens.subarray(0, this.#options.prefixHashTokens ?? PREFIX_HASH_TOKENS);
    const routed = this.#dispatcher.route({
      ...{ tokens, salt: null, lora: null, model: null, excluded: NONE_EXCLUDED },
      promptTokens: tokens.length,
      outputTokens: null,
      session: request.session,
      prefixHash: hashText(String.fromCharCode(...hashed)),
    });
    if (routed.type === "unrouted") return;
    const { reservation, choice, worker } = routed;
    this.#stats.chosen(choice.reason);
    this.#workers.get(worker.id)?.submit(
      { id, promptTokenIds: request.tokens, outputTokens: request.outputTokens },
      {
        firstToken: () => reservation.firstToken(),
        tokens: (count) => reservation.tokens(count),
        end: (outcome) => {
          reservation.end("ended");
          this.#endMs = outcome.endMs;
          this.#stats.ended(outcome);
        },
      },
    );
  }
}

const NONE_EXCLUDED: ReadonlySet<string> = new Set();

function fixedMembers(infos: readonly WorkerInfo[]): Membership {
  const members = infos.map((info): [string, Member] => [info.id, { info, state: "ready" }]);
  return { workers: new Map(members), listen: () => () => {}, close: async () => {} };
}
