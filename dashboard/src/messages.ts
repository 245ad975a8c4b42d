/** What the server sends to the page. */

/** The first message: what does not change while the page is open. */
export interface Hello {
  readonly kind: "server" | "router";
  readonly version: string;
  readonly tickMs: number;
  readonly models: readonly string[];
  readonly model: ModelFacts | null;
  readonly canLook: boolean;
  readonly admin: boolean;
  readonly hasAdmin: boolean;
  readonly hasVectorStores: boolean;
}

export interface ModelFacts {
  readonly name: string;
  readonly architecture: string;
  readonly kind: string;
  readonly device: string;
  readonly parameters: number;
  readonly contextTokensMax: number;
  readonly weightFormat: string;
  readonly kvFormat: string;
  readonly blockTokens: number;
  readonly bytesPerBlock: number;
  readonly hasChat: boolean;
  readonly drafts: string | null;
}

/** Of latencies, in seconds. */
export interface Quantiles {
  readonly count: number;
  readonly p50: number | null;
  readonly p99: number | null;
}

/** Counters since the server's start. */
export interface Totals {
  readonly steps: number;
  readonly preemptions: number;
  readonly promptTokens: number;
  readonly cachedPromptTokens: number;
  readonly computedPromptTokens: number;
  readonly generatedTokens: number;
  readonly draftedTokens: number;
  readonly acceptedTokens: number;
}

/**
 * Steps that ended one after the other: end in ms, steps, seconds, host seconds, longest seconds,
 * tokens of prompts, drafted ones, decoded ones, accepted ones, sequences.
 */
export type StepRow = readonly number[];

/** Tokens of the prompt, cached ones, generated ones; seconds in the queue, prefill, decode. */
export type EndedRow = readonly number[];

export interface NowMessage {
  readonly ms: number;
  readonly viewers: number;
  readonly inWork: number;
  readonly running: number;
  readonly waiting: number;
  readonly paused: number;
  readonly uncomputedTokens: number;
  /** Free, held, cached. */
  readonly blocks: readonly [number, number, number];
  readonly totals: Totals;
  readonly firstToken: Quantiles;
  readonly gap: Quantiles;
  readonly steps: readonly StepRow[];
  readonly ended: readonly EndedRow[];
  readonly endedMore: number;
}

export type LevelName = "device" | "host" | "disk";

export interface LevelMap {
  readonly level: LevelName;
  readonly blocks: number;
  readonly blocksPerCell: number;
  readonly readPerCell: number;
  /** Base64 of [held, cached, priority] for each cell. */
  readonly cells: string;
}

export interface LevelCounts {
  readonly level: LevelName;
  readonly free: number;
  readonly held: number;
  readonly cached: number;
  readonly total: number;
  readonly hitTokens: number;
  readonly offloaded: number;
  readonly onboarded: number;
  readonly forgotten: number;
  readonly dropped: number;
  readonly orphaned: number;
  readonly expired: number;
}

export interface Move {
  readonly blocks: number;
  readonly bytes: number;
  readonly seconds: number;
}

export interface CacheMessage {
  readonly levels: readonly LevelMap[];
  readonly report: {
    readonly levels: readonly LevelCounts[];
    readonly moves: Readonly<Record<string, Move>>;
    readonly copiedBlocks: number;
    readonly swappedOutBlocks: number;
    readonly swappedInBlocks: number;
  } | null;
}

/** Contents, level, held (1) or not (0), priority. */
export type Segment = readonly [number, number, number, number];

export interface Run {
  readonly node: number;
  readonly serial: number;
  readonly parent: number;
  readonly contents: number;
  readonly tokens: number;
  readonly below: number;
  readonly segments: readonly Segment[];
  readonly hiddenRuns: number;
  readonly hiddenContents: number;
  readonly group: number;
  readonly salted: boolean;
}

export interface Picture {
  readonly runs: readonly Run[];
  readonly contents: number;
  readonly hiddenRuns: number;
  readonly hiddenContents: number;
  readonly depth: number;
  readonly complete: boolean;
}

/** The fleet, as a router sees it. */
export interface FleetMessage {
  readonly ms: number;
  readonly viewers: number;
  readonly requestsInWork: number;
  readonly waiting: number;
  readonly draining: boolean;
  readonly policy: string;
  readonly ttftDeadlineMs: number | null;
  readonly tbtDeadlineMs: number | null;
  readonly workers: readonly FleetWorker[];
  readonly workersMore: number;
  readonly decisions: readonly string[];
}

export interface FleetWorker {
  readonly id: string;
  readonly url: string;
  readonly kind: string;
  readonly role: string;
  readonly state: string;
  readonly breaker: string | null;
  readonly models: readonly string[];
  readonly requests: number;
  readonly decoding: number;
  readonly uncachedTokens: number;
  readonly heldBlocks: number;
  readonly blocks: readonly number[];
  /** Whether its cache tells the router what it has. */
  readonly announces: boolean;
}
