/** Servers before PagedAttention: contiguous room for a whole request, set aside when it starts. */
import { BuddyAllocator } from "../buddy.mjs";

/** Slots that a sequence reserves: by what is known of it when it starts. */
export const RESERVES = {
  max: ({ contextTokens }) => contextTokens,
  // A guess that is right up to a power of two.
  pow2: ({ promptTokens, outputTokens, contextTokens }) =>
    Math.min(contextTokens, promptTokens + 2 ** Math.ceil(Math.log2(outputTokens))),
  oracle: ({ promptTokens, outputTokens }) => promptTokens + outputTokens,
};

/** Orca: requests join and leave the batch at each step, as far as there is room for them. */
export class ReservingServer {
  #allocator;
  #reserve;
  #contextTokens;
  #waiting = [];
  #running = [];
  #ended = [];
  #ids = 0;
  computed = { sequences: 0, promptTokens: 0 };

  constructor({ poolSlots, contextTokens, reserve }) {
    this.#allocator = new BuddyAllocator(poolSlots, contextTokens);
    this.#reserve = RESERVES[reserve];
    this.#contextTokens = contextTokens;
  }

  get activeRequests() {
    return this.#waiting.length + this.#running.length;
  }

  takeEnded() {
    return this.#ended.splice(0);
  }

  add(lengths, width) {
    const id = `request-${this.#ids++}`;
    this.#waiting.push({ ...lengths, id, width, made: 0 });
    return id;
  }

  step() {
    let promptTokens = 0;
    for (let next = this.#waiting[0]; next !== undefined; next = this.#waiting[0]) {
      const chunks = this.#allocate(next);
      if (chunks === null) break;
      this.#running.push({ ...this.#waiting.shift(), chunks });
      promptTokens += next.promptTokens;
    }
    const sequences = this.#running.reduce((sum, { width }) => sum + width, 0);
    this.computed = { sequences, promptTokens };
    const others = [];
    for (const request of this.#running) {
      request.made++;
      if (request.made < request.outputTokens) {
        others.push(request);
        continue;
      }
      for (const chunk of request.chunks) this.#allocator.release(chunk);
      this.#ended.push(request.id);
    }
    this.#running = others;
  }

  /** Each beam has room of its own. Null: there is not enough for all of them. */
  #allocate(request) {
    const slots = this.#reserve({ ...request, contextTokens: this.#contextTokens });
    const chunks = [];
    for (let beam = 0; beam < request.width; beam++) {
      const chunk = this.#allocator.allocate(slots);
      if (chunk === null) {
        for (const taken of chunks) this.#allocator.release(taken);
        return null;
      }
      chunks.push(chunk);
    }
    return chunks;
  }
}

/** FasterTransformer behind a queue: a batch of as many as fit, which ends with its longest. */
export class StaticServer {
  #batchMax;
  #waiting = [];
  #batch = [];
  #left = 0;
  #ended = [];
  #ids = 0;
  computed = { sequences: 0, promptTokens: 0 };

  constructor({ poolSlots, contextTokens }) {
    this.#batchMax = Math.floor(poolSlots / contextTokens);
  }

  get activeRequests() {
    return this.#waiting.length + this.#batch.length;
  }

  takeEnded() {
    return this.#ended.splice(0);
  }

  add(lengths, width) {
    const id = `request-${this.#ids++}`;
    this.#waiting.push({ ...lengths, id, width });
    return id;
  }

  step() {
    let promptTokens = 0;
    if (this.#batch.length === 0) {
      this.#batch = this.#waiting.splice(0, this.#batchMax);
      this.#left = Math.max(...this.#batch.map(({ outputTokens }) => outputTokens));
      const longest = Math.max(...this.#batch.map((request) => request.promptTokens));
      promptTokens = longest * this.#batch.length;
    }
    this.computed = { sequences: this.#batch.length, promptTokens };
    this.#left--;
    if (this.#left > 0) return;
    for (const { id } of this.#batch) this.#ended.push(id);
    this.#batch = [];
  }
}
