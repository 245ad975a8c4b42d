/**
 * Workers that give memory alone are told what to fetch: prompts that were computed, from who has
 * them, before these are evicted there.
 */
import { messageOf } from "#base";
import type { Membership, WorkerInfo } from "#cluster/protocol";
import { computes, mayGive, type PrefixFinder, type PrefixQuery } from "#cluster/routing";
import { askWorker } from "./ask-worker.ts";
import type { FillMetrics } from "./fill-metrics.ts";
import { type FillOrder, type FillQueue, FillQueues } from "./fill-queue.ts";
import { answerText } from "./worker-body.ts";
import type { WorkerLinks } from "./worker-links.ts";

/** Fewer tokens than these are not worth a transfer of their own. */
const TOKENS_MIN = 32;
/** What has not come by then is not waited for. */
const DEADLINE_MS = 30_000;
/** The worker's own deadline, and the way. */
const ANSWER_MS = DEADLINE_MS + 5000;
/** Most orders that a worker has at a time, of this router. */
const ORDERS_MAX = 2;
/** A worker without free memory is told of nothing for so long that was asked for only once. */
const FULL_MS = 10_000;

/** `reused`: what was asked for more than once; `all`: the rest, too, where memory is free. */
export type FillKind = "all" | "reused" | "off";

/** A prompt that a worker has computed. */
export interface ComputedPrompt {
  readonly query: PrefixQuery;
  readonly tokens: Uint32Array;
  readonly worker: WorkerInfo;
  /** Leading blocks of it that were known before it came. */
  readonly seenBlocks: number;
}

export interface KvFillsOptions {
  readonly membership: Membership;
  readonly links: WorkerLinks;
  readonly prefixes: Pick<PrefixFinder, "find">;
  readonly kind: FillKind;
  readonly metrics: FillMetrics;
  /** One line for operators. */
  readonly warn: (message: string) => void;
}

export class KvFills {
  readonly #options: KvFillsOptions;
  readonly #queues = new FillQueues();
  /** By id of a worker: until when its memory is taken to be full. */
  readonly #full = new Map<string, number>();
  /** Workers of whose failures was told. */
  readonly #told = new Set<string>();
  readonly #stopListening: () => void;

  constructor(options: KvFillsOptions) {
    this.#options = options;
    this.#stopListening = options.membership.listen({
      joined: () => {},
      changed: () => {},
      left: (id) => {
        this.#queues.forget(id);
        this.#full.delete(id);
        this.#told.delete(id);
      },
    });
  }

  close(): void {
    this.#stopListening();
    this.#queues.clear();
  }

  /** A request has ended: its prompt may be evicted from now on. */
  computed(prompt: ComputedPrompt): void {
    const { kind } = this.#options;
    if (kind === "off") return;
    const memory = this.#memoryFor(prompt.worker);
    const source = prompt.worker.transfer;
    if (memory.length === 0 || source === undefined) return;
    const blockTokens = prompt.worker.kv?.blockTokens ?? 0;
    if (blockTokens === 0) return;
    const all = Math.floor((prompt.tokens.length - 1) / blockTokens);
    const reused = Math.min(all, prompt.seenBlocks);
    const held = this.#heldBy(memory, prompt.query);
    const id = this.#choose(memory, held, all);
    const isFull = (this.#full.get(id) ?? 0) > performance.now();
    const wanted = kind === "reused" || isFull ? reused : all;
    const missing = (wanted - (held.get(id) ?? 0)) * blockTokens;
    if (missing < TOKENS_MIN) return;
    const dropped = this.#queues.of(id).add({
      tokens: prompt.tokens.subarray(0, wanted * blockTokens + 1),
      salt: prompt.query.salt,
      reusedTokens: reused * blockTokens,
      source,
      worker: { id: prompt.worker.id, epoch: prompt.worker.epoch },
    });
    this.#options.metrics.ended("dropped", dropped);
    void this.#run(id, this.#queues.of(id));
  }

  /** Those that hold blocks for the worker, and may be told now. */
  #memoryFor(worker: WorkerInfo): readonly WorkerInfo[] {
    const { membership, links } = this.#options;
    const found: WorkerInfo[] = [];
    for (const { info, state } of membership.workers.values()) {
      if (state !== "ready" || computes(info)) continue;
      if (!mayGive(worker, info)) this.#unused(info, worker);
      else if (links.find(info.id)?.breaker.admits === true) found.push(info);
    }
    return found;
  }

  /** Once for each: memory that holds nothing is seen nowhere else. */
  #unused(memory: WorkerInfo, { id, fingerprint, transfer, models, kv }: WorkerInfo): void {
    // Of another model it is another fleet's.
    if (this.#told.has(memory.id) || models[0] !== memory.models[0]) return;
    this.#told.add(memory.id);
    const why =
      transfer === undefined
        ? "gives no keys and values; start it with --kv-transfer"
        : fingerprint !== memory.fingerprint
          ? "has another fingerprint; start both with the same model, device kind and settings"
          : `has blocks of ${kv?.blockTokens ?? 0} tokens, not ${memory.kv?.blockTokens ?? 0}; ` +
            "start both with the same --block-tokens";
    this.#options.warn(
      `worker ${memory.id} (role kv) holds nothing for worker ${id}, which ${why}`,
    );
  }

  /** Leading blocks of the prompt that each has now. */
  #heldBy(memory: readonly WorkerInfo[], query: PrefixQuery): ReadonlyMap<string, number> {
    // A query of its own: what was found when the request was routed is old by now.
    const matches = this.#options.prefixes.find({ ...query }, memory);
    return new Map(memory.map(({ id }, at) => [id, matches[at]?.levels[2] ?? 0]));
  }

  /**
   * A prompt goes where half of it is already; others to who was given least, so that a beginning
   * that all prompts share does not bring them all to one worker.
   */
  #choose(
    memory: readonly WorkerInfo[],
    held: ReadonlyMap<string, number>,
    blocks: number,
  ): string {
    const ids = memory.map(({ id }) => id);
    const [most = ""] = ids.toSorted((a, b) => (held.get(b) ?? 0) - (held.get(a) ?? 0));
    if (2 * (held.get(most) ?? 0) >= blocks) return most;
    const given = (id: string) => this.#queues.of(id).givenTokens;
    return ids.toSorted((a, b) => given(a) - given(b))[0] ?? most;
  }

  async #run(id: string, queue: FillQueue): Promise<void> {
    if (queue.running >= ORDERS_MAX) return;
    const order = queue.take();
    if (order === null) return;
    try {
      await this.#give(id, order);
    } catch (error) {
      this.#failed(id, messageOf(error));
    } finally {
      queue.ended();
    }
    void this.#run(id, queue);
  }

  async #give(id: string, order: FillOrder): Promise<void> {
    const { membership, links, metrics } = this.#options;
    const link = links.find(id);
    // Who has the prompt may be gone by now, and what it had with it.
    const isThere = membership.workers.get(order.worker.id)?.info.epoch === order.worker.epoch;
    if (link === null || !isThere) {
      metrics.ended("dropped");
      return;
    }
    const { status, text } = await askWorker(link, {
      ...{ method: "POST", path: "/kv_fill", timeoutMs: ANSWER_MS },
      body: JSON.stringify({
        prompt_token_ids: [...order.tokens],
        cache_salt: order.salt,
        reused_tokens: order.reusedTokens,
        source: order.source,
        deadline_ms: DEADLINE_MS,
      }),
    });
    if (status === 429) metrics.ended("dropped");
    else if (status !== 200) this.#failed(id, answerText(Buffer.from(text)));
    else this.#stored(id, order, JSON.parse(text));
  }

  #stored(id: string, { tokens, reusedTokens }: FillOrder, answer: unknown): void {
    const [stored, before] = ["stored_tokens", "stored_before"].map((name) =>
      Number((answer as Readonly<Record<string, unknown>> | null)?.[name] ?? 0),
    );
    const came = Math.max(0, (stored ?? 0) - (before ?? 0));
    this.#options.metrics.stored(Number.isFinite(came) ? came : 0);
    this.#told.delete(id);
    const lacks = (stored ?? 0) < tokens.length - 1 && (stored ?? 0) >= reusedTokens;
    if (lacks) this.#full.set(id, performance.now() + FULL_MS);
  }

  #failed(id: string, why: string): void {
    const { metrics, warn } = this.#options;
    metrics.ended("failed");
    if (this.#told.has(id)) return;
    this.#told.add(id);
    warn(`worker ${id} does not fetch blocks that it is to hold: ${why}`);
  }
}
