/** Orders to workers that give memory alone, which wait for those before them. */
import type { TransferAddress } from "#cluster/protocol";

/** What a worker is to fetch. */
export interface FillOrder {
  readonly tokens: Uint32Array;
  readonly salt: string | null;
  /** Leading tokens that were asked for more than once. */
  readonly reusedTokens: number;
  readonly source: TransferAddress;
  /** Who the source is. */
  readonly worker: { readonly id: string; readonly epoch: string };
}

/** Most orders that wait, and most tokens of them all. */
const ORDERS_MAX = 64;
const TOKENS_MAX = 2 ** 20;

/** Of one worker. Those with most reused tokens go first, and are dropped last. */
export class FillQueue {
  readonly #waiting: FillOrder[] = [];
  #running = 0;
  #tokens = 0;
  #givenTokens = 0;

  get running(): number {
    return this.#running;
  }

  /** Tokens of all orders since the start. */
  get givenTokens(): number {
    return this.#givenTokens;
  }

  /** Returns how many orders were dropped for it, itself included. */
  add(order: FillOrder): number {
    if (this.#waiting.some((other) => isWithin(order, other))) return 0;
    const at = this.#waiting.findIndex((other) => other.reusedTokens < order.reusedTokens);
    this.#waiting.splice(at < 0 ? this.#waiting.length : at, 0, order);
    this.#tokens += order.tokens.length;
    let dropped = 0;
    while (this.#waiting.length > ORDERS_MAX || this.#tokens > TOKENS_MAX) {
      this.#tokens -= this.#waiting.pop()?.tokens.length ?? 0;
      dropped++;
    }
    return dropped;
  }

  /** Null: none waits. Its end is to be told by `ended`. */
  take(): FillOrder | null {
    const order = this.#waiting.shift() ?? null;
    if (order === null) return null;
    this.#tokens -= order.tokens.length;
    this.#givenTokens += order.tokens.length;
    this.#running++;
    return order;
  }

  ended(): void {
    this.#running--;
  }

  clear(): void {
    this.#waiting.length = 0;
    this.#tokens = 0;
  }
}

/** By id of the worker. */
export class FillQueues {
  readonly #queues = new Map<string, FillQueue>();

  of(id: string): FillQueue {
    const queue = this.#queues.get(id) ?? new FillQueue();
    this.#queues.set(id, queue);
    return queue;
  }

  forget(id: string): void {
    this.#queues.get(id)?.clear();
    this.#queues.delete(id);
  }

  clear(): void {
    for (const queue of this.#queues.values()) queue.clear();
    this.#queues.clear();
  }
}

/** Equal tokens of one salt, all of which wait already. */
function isWithin(order: FillOrder, other: FillOrder): boolean {
  if (order.salt !== other.salt || order.tokens.length > other.tokens.length) return false;
  if (order.reusedTokens > other.reusedTokens) return false;
  // The last token is in no block.
  for (let place = 0; place < order.tokens.length - 1; place++) {
    if (order.tokens[place] !== other.tokens[place]) return false;
  }
  return true;
}
