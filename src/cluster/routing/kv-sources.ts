import type {
  Candidate,
  Membership,
  RoutingRequest,
  TransferAddress,
  WorkerInfo,
} from "#cluster/protocol";
import {
  chooseKvSource,
  type KvSourceChoice,
  mayGive,
  storedChoice,
  withMemory,
} from "./kv-source.ts";
import type { LoadBooks } from "./load-books.ts";
import type { PrefixQuery } from "./prefix-finder.ts";
import { computes } from "./served-model.ts";

/** A request that was given to a worker. */
export interface SourceRequest extends RoutingRequest, PrefixQuery {
  readonly model: string | null;
  /** Ids of workers that are not to be asked. */
  readonly excluded: ReadonlySet<string>;
}

/** A worker that gives keys and values to the one that a request was sent to. */
export interface KvSource {
  readonly workerId: string;
  readonly address: TransferAddress;
  /** It computes what it does not have. */
  readonly compute: boolean;
  /** Prompt tokens that the worker itself computes. */
  readonly leftTokens: number;
  /** Where the source fetches what that one has stored first; null: nowhere. */
  readonly prefix: TransferAddress | null;
  /** The prompt is computed. */
  readonly firstToken: () => void;
  /** It is not wanted any more. */
  readonly end: () => void;
}

const NOTHING = () => {};

export interface KvSourcesParts {
  readonly membership: Membership;
  readonly books: LoadBooks;
  readonly isOpen: (workerId: string) => boolean;
  /** What is known of workers that a request might use. */
  readonly candidates: (
    request: SourceRequest,
    workers: readonly WorkerInfo[],
  ) => readonly Candidate[];
}

/** Finds who gives keys and values of prompts to workers that got requests. */
export class KvSources {
  readonly #parts: KvSourcesParts;

  constructor(parts: KvSourcesParts) {
    this.#parts = parts;
  }

  /** Null: no worker does. */
  sourceFor(request: SourceRequest, worker: WorkerInfo): KvSource | null {
    if (worker.transfer === undefined || worker.fingerprint === null) return null;
    const infos = this.#ready(request);
    const at = infos.findIndex(({ id }) => id === worker.id);
    if (at < 0 || infos.length < 2) return null;
    const candidates = this.#parts.candidates(request, infos);
    const own = candidates[at];
    const choice = own === undefined ? null : chooseKvSource(request, own, candidates);
    return choice === null ? null : this.book(request, choice);
  }

  /**
   * A plan's choice, with what workers that give memory alone have of the prompt: who plans knows
   * only those that compute. Null: the worker computes the prompt, and no one has more of it.
   */
  planned(
    request: SourceRequest,
    worker: WorkerInfo,
    choice: KvSourceChoice | null,
  ): KvSource | null {
    const memory = this.#ready(request).filter((info) => !computes(info));
    if (memory.length === 0) return choice && this.book(request, choice);
    const [own, ...others] = this.#parts.candidates(request, [worker, ...memory]);
    const isOpen = worker.transfer !== undefined && worker.fingerprint !== null;
    const peers = others.filter(({ info }) => isOpen && mayGive(info, worker));
    const found =
      choice === null && own !== undefined
        ? storedChoice(request, own, peers)
        : withMemory(request, choice, others);
    return found && this.book(request, found);
  }

  /** What is computed elsewhere is booked there, until `end`. */
  book(request: RoutingRequest, choice: KvSourceChoice): KvSource {
    const { worker: giver, uncachedTokens, leftTokens, blockTokens, compute, address } = choice;
    const given = { workerId: giver.id, address, compute, leftTokens, prefix: choice.prefix };
    if (!compute) return { ...given, firstToken: NOTHING, end: NOTHING };
    const reservation = this.#parts.books.reserve({
      ...{ workerId: giver.id, epoch: giver.epoch, promptTokens: request.promptTokens },
      ...{ uncachedTokens, blockTokens, isUnseen: true },
    });
    const end = () => reservation.end("moved");
    return { ...given, firstToken: end, end };
  }

  #ready(request: SourceRequest): readonly WorkerInfo[] {
    return [...this.#parts.membership.workers.values()]
      .filter(({ info, state }) => state === "ready" && this.#mayGive(request, info))
      .map(({ info }) => info);
  }

  #mayGive({ excluded }: SourceRequest, { id, transfer }: WorkerInfo): boolean {
    return transfer !== undefined && !excluded.has(id) && this.#parts.isOpen(id);
  }
}
