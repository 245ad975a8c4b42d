/**
 * Collects changes into batches in shared memory and counts what the shards have still to take
 * over. Buffers are used again when all shards have read them.
 */
import type { KvChange, KvScope, WorkerNumber } from "#cluster/protocol";
import { wordsOf, writeChange } from "./change-words.ts";
import type { ToShard } from "./shard-messages.ts";

const BATCH_WORDS = 1 << 16;
/** Scopes that have numbers; beyond it all get new ones. */
const SCOPES_MAX = 4096;
/** Buffers that are kept for later. */
const SPARE_MAX = 64;

export type Batch = Extract<ToShard, { readonly type: "changes" }>;

export class ChangeBatches {
  readonly #post: (batch: Batch) => void;
  readonly #progress: Int32Array;
  /** Posted and not yet taken over by all, oldest first. */
  #waiting: Uint32Array[] = [];
  #taken = 0;
  #waitingBytes = 0;
  readonly #spare: Uint32Array[] = [];
  #words: Uint32Array | null = null;
  #length = 0;
  readonly #scopes = new Map<string, number>();
  #newScopes: [number, KvScope][] = [];
  #forgetsScopes = false;
  #lastScope: KvScope | null = null;
  #lastNumber = 0;

  /** `progress`: [shards] the batches that each shard has taken over, counted by the shards. */
  constructor(progress: Int32Array, post: (batch: Batch) => void) {
    this.#progress = progress;
    this.#post = post;
  }

  /** Bytes of changes that some shard has still to take over. */
  get backlogBytes(): number {
    this.#recycle();
    return this.#waitingBytes + this.#length * 4;
  }

  /** Whether something is collected that was not posted. */
  get isPending(): boolean {
    return this.#length > 0;
  }

  add(worker: WorkerNumber, change: KvChange): void {
    const scope = change.type === "stored" ? this.#numberOf(change.scope) : 0;
    const words = this.#roomFor(wordsOf(change));
    this.#length = writeChange(words, this.#length, worker, { change, scope });
  }

  /** One of the words that say what becomes of a worker. */
  addEvent(type: number, worker: WorkerNumber): void {
    this.#roomFor(2).set([type, worker], this.#length);
    this.#length += 2;
  }

  flush(): void {
    const words = this.#words;
    if (words === null || this.#length === 0) return;
    this.#waiting.push(words);
    this.#waitingBytes += words.byteLength;
    this.#post({
      type: "changes",
      words: words.subarray(0, this.#length),
      scopes: this.#newScopes,
      forgetsScopes: this.#forgetsScopes,
    });
    this.#words = null;
    this.#length = 0;
    this.#newScopes = [];
    this.#forgetsScopes = false;
  }

  #roomFor(count: number): Uint32Array {
    if (this.#words !== null && this.#length + count > this.#words.length) this.flush();
    this.#words ??= this.#buffer(count);
    return this.#words;
  }

  #buffer(count: number): Uint32Array {
    this.#recycle();
    const spare = count <= BATCH_WORDS ? this.#spare.pop() : undefined;
    if (spare !== undefined) return spare;
    return new Uint32Array(new SharedArrayBuffer(4 * Math.max(count, BATCH_WORDS)));
  }

  /** Takes back what all shards have read. */
  #recycle(): void {
    let taken = Atomics.load(this.#progress, 0);
    for (let shard = 1; shard < this.#progress.length; shard++) {
      taken = Math.min(taken, Atomics.load(this.#progress, shard));
    }
    const read = this.#waiting.splice(0, taken - this.#taken);
    this.#taken = taken;
    for (const words of read) {
      this.#waitingBytes -= words.byteLength;
      if (words.length === BATCH_WORDS && this.#spare.length < SPARE_MAX) this.#spare.push(words);
    }
  }

  #numberOf(scope: KvScope): number {
    if (scope === this.#lastScope) return this.#lastNumber;
    const { model, blockTokens, salt, lora, group } = scope;
    const text = JSON.stringify([model, blockTokens, salt, lora, group]);
    let number = this.#scopes.get(text);
    if (number === undefined) {
      if (this.#scopes.size === SCOPES_MAX) {
        // Words written before mean the old numbers: they go first.
        this.flush();
        this.#scopes.clear();
        this.#forgetsScopes = true;
      }
      number = this.#scopes.size;
      this.#scopes.set(text, number);
      this.#newScopes.push([number, scope]);
    }
    this.#lastScope = scope;
    this.#lastNumber = number;
    return number;
  }
}
