/** What the conductor is asked, and what it answers: plain records, to be logged and explained. */
import type { PriorityClass } from "./conductor-config.ts";

/** Place of an instance in the conductor's tables; given again when it left. */
export type InstanceNumber = number;

/** What an instance may do for requests. `kv`: it only keeps blocks. */
export type InstanceRole = "prefill" | "decode" | "both" | "kv";

/** An instance of a fleet with pools. */
export interface PoolInstance {
  readonly id: string;
  readonly role: InstanceRole;
  /** Instances of equal kinds are as fast as each other. Default: all are. */
  readonly kind?: string;
  /** Tokens whose keys and values its device holds; 0: unknown, no bound. */
  readonly kvTokens: number;
  /** Bytes that it sends and receives per ms; 0: unknown. */
  readonly networkBytesPerMs: number;
}

/** Leading tokens of a prompt that an instance has. */
export interface HeldPrefix {
  readonly instance: InstanceNumber;
  readonly tokens: number;
}

/** A request, as far as decisions read it. */
export interface ConductorRequest {
  readonly id: string;
  readonly promptTokens: number;
  /** Expected output; null: as usual. */
  readonly outputTokens: number | null;
  /** Default: normal. */
  readonly priority?: PriorityClass;
  /** Its own deadlines; absent: the fleet's. null: none. */
  readonly ttftDeadlineMs?: number | null;
  readonly tbtDeadlineMs?: number | null;
  /** Time of its deadline to the first token that is over, or will be before it is sent. */
  readonly waitedMs?: number;
  /** It is not rejected, whatever is predicted. Default: false. */
  readonly mustTake?: boolean;
  /** Instances that it may not have, e.g. since they failed it. Default: none. */
  readonly barred?: ReadonlySet<InstanceNumber> | null;
}

/** One prefill instance as Algorithm 1 weighs it, in ms and tokens. */
export interface PrefillTerms {
  readonly instance: InstanceNumber;
  readonly queueMs: number;
  /** Of the missing part of the best prefix; 0: the own one is used. */
  readonly transferMs: number;
  readonly prefillMs: number;
  /** Of these: what the choice minimises. */
  readonly ttftMs: number;
  /** Leading tokens that it has. */
  readonly ownPrefixTokens: number;
  /** Leading tokens that it would not compute. */
  readonly usedPrefixTokens: number;
}

/** A part of a prefix that moves, and stays where it came to. */
export interface PrefixTransfer {
  readonly from: InstanceNumber;
  /** Moved tokens are those from `startTokens` up to `endTokens`. */
  readonly startTokens: number;
  readonly endTokens: number;
}

/** Why a request is rejected. */
export type RejectionReason = "ttft" | "tbt" | "no-prefill" | "no-decode";

/** Loads of both pools as a decision saw them: 1 is at the deadline; null: no deadline. */
export interface PoolLoads {
  readonly prefill: number | null;
  readonly decode: number | null;
}

interface DecisionBasis {
  readonly request: string;
  readonly atMs: number;
  readonly policy: string;
  readonly priority: PriorityClass;
  readonly promptTokens: number;
  readonly bestPrefixTokens: number;
  readonly bestPrefixAt: InstanceNumber | null;
  readonly loads: PoolLoads;
  /** The chosen prefill instance; null: there is none. */
  readonly chosen: PrefillTerms | null;
  readonly decode: InstanceNumber | null;
  readonly predictedTbtMs: number;
  /** Tokens of context in the middle of its output: what it counts in a decode batch. */
  readonly contextTokens: number;
}

export interface Accepted extends DecisionBasis {
  readonly type: "accepted";
  readonly chosen: PrefillTerms;
  readonly decode: InstanceNumber;
  readonly transfer: PrefixTransfer | null;
}

export interface Rejected extends DecisionBasis {
  readonly type: "rejected";
  readonly reason: RejectionReason;
  /** When to ask again: by then the load is likely to have fallen. */
  readonly retryAfterMs: number;
}

export type Decision = Accepted | Rejected;
