/**
 * The exact index in several threads. A prefix lives in one shard, by its first block; all shards
 * read all changes, from memory that they share, and each keeps its own. A look-up asks one shard.
 *
 * What a worker calls a block is known to the shard that has the block: no thread could tell the
 * others where a run belongs. So each looks for the parent and the names of every change, which
 * costs little where they are not there, and names and stores a part of the blocks alone.
 */
import { Worker } from "node:worker_threads";
import { EngineError, messageOf } from "#base";
import type {
  GroupBlocks,
  KvChange,
  KvScope,
  PrefixMatch,
  PromptBlocks,
  WorkerNumber,
} from "#cluster/protocol";
import { BlockNamer } from "./block-namer.ts";
import { ChangeBatches } from "./change-batches.ts";
import { JOINED, LEFT, RESET } from "./change-words.ts";
import { isWellFormed, type KvIndexOptions, type KvIndexStats } from "./kv-index.ts";
import { ShardCounts } from "./shard-counts.ts";
import { type FromShard, type ShardData, shardOf, type ToShard } from "./shard-messages.ts";
import { WorkerNumbers } from "./worker-numbers.ts";

const BACKLOG_BYTES_MAX = 2 ** 28;

export interface ShardedKvIndexOptions
  extends Pick<KvIndexOptions, "bytesMax" | "workerBlocksMax" | "namer"> {
  /** Threads. */
  readonly shards: number;
  /** Most bytes of changes that wait for the shards. Default 256 MiB. */
  readonly backlogBytesMax?: number;
  /** Changes of a worker did not fit: it has nothing now, until it announces all from the start. */
  readonly onOverrun?: (worker: WorkerNumber) => void;
  /** A shard has ended: the index answers no more. Default: nothing beside what look-ups say. */
  readonly onDead?: (error: EngineError) => void;
}

/** An answer that is waited for. */
interface Ask {
  readonly shard: number;
  readonly resolve: (message: FromShard) => void;
  readonly reject: (error: EngineError) => void;
}

export class ShardedKvIndex {
  readonly namer: BlockNamer;
  readonly #shards: readonly Worker[];
  readonly #batches: ChangeBatches;
  readonly #numbers = new WorkerNumbers();
  readonly #counts: ShardCounts;
  readonly #backlogBytesMax: number;
  readonly #onOverrun: (worker: WorkerNumber) => void;
  readonly #onDead: (error: EngineError) => void;
  readonly #asks = new Map<number, Ask>();
  #nextAsk = 0;
  #willFlush = false;
  #isClosed = false;
  #dead: EngineError | null = null;

  constructor(options: ShardedKvIndexOptions) {
    const { shards, bytesMax = 2 ** 30 } = options;
    const { workerBlocksMax = Number.POSITIVE_INFINITY } = options;
    this.namer = options.namer ?? new BlockNamer();
    this.#backlogBytesMax = options.backlogBytesMax ?? BACKLOG_BYTES_MAX;
    this.#onOverrun = options.onOverrun ?? (() => {});
    this.#onDead = options.onDead ?? (() => {});
    this.#counts = new ShardCounts(shards);
    const progress = new SharedArrayBuffer(4 * shards);
    const secret = this.namer.secret;
    const data = { shards, secret, bytesMax: Math.floor(bytesMax / shards), workerBlocksMax };
    this.#shards = Array.from({ length: shards }, (_, shard) =>
      this.#start({ ...data, shard, progress }),
    );
    this.#batches = new ChangeBatches(new Int32Array(progress), (batch) => {
      for (const shard of this.#shards) shard.postMessage(batch satisfies ToShard);
    });
  }

  /** Bytes of changes that some shard has still to take over. */
  get backlogBytes(): number {
    return this.#batches.backlogBytes;
  }

  /** See `KvIndex.join`; the others, too, take effect in their order, and before later look-ups. */
  join(): WorkerNumber {
    const worker = this.#numbers.take();
    this.#tell(JOINED, worker);
    return worker;
  }

  leave(worker: WorkerNumber): void {
    if (this.#numbers.release(worker)) this.#tell(LEFT, worker);
  }

  reset(worker: WorkerNumber): void {
    if (this.#numbers.isTaken(worker)) this.#tell(RESET, worker);
  }

  /** See `KvIndex.apply`. The arrays may be used again after the call. */
  apply(worker: WorkerNumber, changes: readonly KvChange[]): void {
    if (!this.#numbers.isTaken(worker) || this.#dead !== null) return;
    for (const change of changes) {
      if (!isWellFormed(change)) {
        this.#counts.malformed++;
        continue;
      }
      if (this.#batches.backlogBytes > this.#backlogBytesMax) {
        this.reset(worker);
        this.#onOverrun(worker);
        return;
      }
      this.#counts.sent(change);
      this.#batches.add(worker, change);
    }
    this.#flushSoon();
  }

  blocksOf(scope: KvScope, tokens: Uint32Array, known?: PromptBlocks): PromptBlocks {
    return this.namer.blocksOf(scope, tokens, known);
  }

  /** As `PrefixLookup.find`, after all that was told before. Rejects when a shard has ended. */
  find(prompt: PromptBlocks): Promise<readonly PrefixMatch[]> {
    return this.findGroups([{ prompt, windowTokens: null }]);
  }

  async findGroups(groups: readonly GroupBlocks[]): Promise<readonly PrefixMatch[]> {
    if (groups.length === 0 || groups.some(({ prompt }) => prompt.keys.length === 0)) return [];
    this.#batches.flush();
    const answers = await Promise.all(
      this.#shardsOf(groups).map((shard) =>
        this.#ask(shard, (ask) => ({ type: "find", ask, groups })),
      ),
    );
    return answers.flatMap((answer) => (answer.type === "found" ? answer.matches : []));
  }

  /** That of the first block's name in group 0; where it is not given, all: one has the prefix. */
  #shardsOf(groups: readonly GroupBlocks[]): readonly number[] {
    const first = groups.find(({ prompt }) => prompt.scope.group === 0);
    if (first === undefined) return [...this.#shards.keys()];
    return [shardOf(first.prompt.keys[0] ?? 0, this.#shards.length)];
  }

  /** Sums over the shards, after all that was told before. */
  async stats(): Promise<KvIndexStats> {
    this.#batches.flush();
    const counts = this.#counts.snapshot();
    const answers = await Promise.all(
      [...this.#shards.keys()].map((shard) => this.#ask(shard, (ask) => ({ type: "stats", ask }))),
    );
    const stats = answers.flatMap((answer) => (answer.type === "stats" ? [answer.stats] : []));
    return counts.sum(stats);
  }

  async close(): Promise<void> {
    this.#isClosed = true;
    this.#end("it was closed");
    await Promise.all(this.#shards.map((shard) => shard.terminate()));
  }

  #start(data: ShardData): Worker {
    const name = `perigee-index-${data.shard + 1}`;
    const worker = new Worker(threadUrl(), { name, execArgv: [], workerData: data });
    worker.on("message", (message: FromShard) => this.#answer(message));
    worker.on("error", (error) => this.#end(messageOf(error)));
    worker.on("exit", (code) => this.#end(`its thread ended with code ${code}`));
    worker.unref();
    return worker;
  }

  #tell(type: number, worker: WorkerNumber): void {
    this.#batches.addEvent(type, worker);
    this.#flushSoon();
  }

  /** What comes in one turn of the event loop goes out as one batch. */
  #flushSoon(): void {
    if (this.#willFlush) return;
    this.#willFlush = true;
    setImmediate(() => {
      this.#willFlush = false;
      if (this.#dead === null) this.#batches.flush();
    });
  }

  #ask(shard: number, message: (ask: number) => ToShard): Promise<FromShard> {
    if (this.#dead !== null) return Promise.reject(this.#dead);
    const ask = this.#nextAsk++;
    // A process that waits for an answer stays alive for it.
    this.#shards[shard]?.ref();
    this.#shards[shard]?.postMessage(message(ask));
    return new Promise((resolve, reject) => {
      this.#asks.set(ask, { shard, resolve, reject });
    });
  }

  #answer(message: FromShard): void {
    const asked = this.#asks.get(message.ask);
    if (asked === undefined) return;
    this.#asks.delete(message.ask);
    asked.resolve(message);
    const isAsked = [...this.#asks.values()].some(({ shard }) => shard === asked.shard);
    if (!isAsked) this.#shards[asked.shard]?.unref();
  }

  #end(reason: string): void {
    if (this.#dead !== null) return;
    this.#dead = new EngineError(
      "IO",
      `Cannot look up prefixes: all shards must run, but of one is known that ${reason}`,
    );
    for (const { reject } of this.#asks.values()) reject(this.#dead);
    this.#asks.clear();
    if (!this.#isClosed) this.#onDead(this.#dead);
  }
}

/** Node 20 cannot run TypeScript: from source, the thread runs the built file. */
function threadUrl(): URL {
  const isSource = import.meta.url.endsWith(".ts");
  const file = isSource ? "../../../dist/cluster/index/shard-thread.js" : "./shard-thread.js";
  return new URL(file, import.meta.url);
}
