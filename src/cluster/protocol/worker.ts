/** A worker as membership, feeds and router know it. */

/** Which server it is: decides what it can be asked, and how its events read. */
export type WorkerKind = "perigee" | "vllm" | "sglang" | "tensorrt-llm" | "openai";

/** Takes new requests; finishes those it has; does not answer. */
export type WorkerState = "ready" | "draining" | "unreachable";

/** What a worker says of itself. Plain data: it travels as JSON. */
export interface WorkerInfo {
  /** Unique in the fleet; of a worker that is given by URL, that URL. */
  readonly id: string;
  /** New for each start of the process: what was known of an earlier one is void. */
  readonly epoch: string;
  /** Without a slash at the end, e.g. `http://10.0.0.7:8000`. */
  readonly url: string;
  readonly kind: WorkerKind;
  readonly version: string;
  /** Names under which its model is asked for; the first is the main one. */
  readonly models: readonly string[];
  /** Those of them that are adapters of the main one: their blocks are others. Absent: none. */
  readonly adapters?: readonly string[];
  /**
   * Of weights, arithmetic and KV format: workers of equal fingerprints continue each other's
   * requests with the same tokens. Null where the server does not say.
   */
  readonly fingerprint: string | null;
  readonly contextTokensMax: number;
  /** Null: its cache announces nothing. */
  readonly kv: WorkerKv | null;
  /** Absent: both. */
  readonly role?: WorkerRole;
  /**
   * How often its role has changed since it started: requests carry it, and the worker refuses
   * those that were routed by an older one. Absent: it cannot change its role.
   */
  readonly roleEpoch?: number;
  /** Its role is its operator's alone: no conductor changes it. Absent: false. */
  readonly rolePinned?: boolean;
  /** Where workers of its fingerprint ask for its blocks. Absent: nowhere. */
  readonly transfer?: TransferAddress;
}

/**
 * prefill: computes prompts for others, and whole requests where no other can · decode: gets
 * requests, whose prompts others compute · both: computes its own prompts · kv: holds keys and
 * values for others and computes nothing.
 */
export type WorkerRole = "both" | "prefill" | "decode" | "kv";

/** A role as its worker told it. */
export interface ToldRole {
  /** Of the worker's process. */
  readonly epoch: string;
  readonly role: WorkerRole;
  readonly roleEpoch: number;
}

/** Where a worker gives blocks to others. */
export interface TransferAddress {
  readonly host: string;
  readonly port: number;
}

/** How a worker's cache is announced. */
export interface WorkerKv {
  readonly blockTokens: number;
  /** Blocks per level. */
  readonly blocks: readonly number[];
  /** By group of layers with blocks of its own: most positions that a token sees; null: all. */
  readonly groupWindows: readonly (number | null)[];
  /** Where it publishes events over ZeroMQ (vLLM, SGLang); absent: ports 5557, 5558 of its host. */
  readonly zmq?: ZmqEvents;
  /** Key of the Redis stream of its events (our own workers); absent: they are read over HTTP. */
  readonly stream?: string;
}

/** Addresses of a ZeroMQ publisher, those of data-parallel rank 0; rank r adds r to the ports. */
export interface ZmqEvents {
  readonly endpoint: string;
  /** Where lost events are asked for; null: nowhere. */
  readonly replayEndpoint: string | null;
  /** Beginning of the topics of its events; empty: all. */
  readonly topic: string;
  /** Data-parallel ranks that publish. */
  readonly ranks: number;
}

/** Load that a worker reports of itself. */
export interface WorkerLoad {
  readonly runningRequests: number;
  readonly waitingRequests: number;
  /** Held blocks of the device over all of them, 0 to 1. */
  readonly blocksUsed: number;
  /** Prompt tokens of waiting and running requests that are not computed yet. */
  readonly uncachedTokens: number;
  /** Absent: none were fetched, or it does not tell. */
  readonly fetched?: FetchedKv;
}

/** Keys and values that a worker got from others since its start. */
export interface FetchedKv {
  readonly tokens: number;
  /** In which some were on their way; of fetches at a time, their time together. */
  readonly seconds: number;
}

/** The members of a fleet. */
export interface Membership {
  /** Those known now, by id. */
  readonly workers: ReadonlyMap<string, Member>;
  /**
   * Since when it has been told, by `performance.now()`, of those that are there; some that lost
   * their place may come a moment later. Null: it knows none, and who knows them does not answer.
   */
  readonly heardMs: number | null;
  /** Returns a function that removes the listener. */
  listen(listener: MembershipListener): () => void;
  /** The worker said so itself, to one who asked it: it is known before it is announced. */
  learnRole(id: string, told: ToldRole): void;
  /**
   * A worker told another one who asked it what it is: it need not be asked for that soon. Absent:
   * members are known without being asked.
   */
  heard?(member: Member): void;
  close(): Promise<void>;
}

/** A worker, and whether it takes requests. */
export interface Member {
  readonly info: WorkerInfo;
  readonly state: WorkerState;
}

/** Told in order; a worker with a new epoch is told as `left`, then `joined`. */
export interface MembershipListener {
  joined(member: Member): void;
  changed(member: Member): void;
  left(id: string, reason: string): void;
}
