import type { ConductorConfig, RoleBalanceSettings } from "#cluster";
import type { Trace } from "../trace.ts";
import type { CoupledRules } from "./coupled-node.ts";
import type { NodeCosts } from "./node-costs.ts";
import type { PoolRequestRow } from "./request-row.ts";

/** Where a prefix lies: on nodes that computed or fetched it, or anywhere in the pool. */
export const CACHE_PLACES = ["node", "pool"] as const;
export type CachePlace = (typeof CACHE_PLACES)[number];

/** A fleet of two pools, or of nodes that do both. */
export interface PoolOptions {
  readonly trace: Trace;
  readonly prefillNodes: number;
  readonly decodeNodes: number;
  readonly costs: NodeCosts;
  readonly conductor: ConductorConfig;
  readonly seed: number;
  /** Requests come so many times as often. Default: 1. */
  readonly speed?: number;
  /** Most prompt tokens of a step. Default: 2048. */
  readonly chunkTokens?: number;
  /** Machines of each prefill node, whose layers are spread over them. Default: 1. */
  readonly pipelineStages?: number;
  /** Most sequences of a decode node. Default: 256. */
  readonly sequencesMax?: number;
  /** Nodes that compute prompts and decode, instead of the two pools. Default: 0. */
  readonly coupledNodes?: number;
  readonly coupled?: CoupledRules;
  /**
   * `node`: a prefix that a node has costs nothing there. `pool`: blocks lie on nodes by chance, so
   * that each found prefix travels before it is used, and each computed part when it is. Default:
   * node.
   */
  readonly cachePlace?: CachePlace;
  /** Nodes change pools when the load shifts. Default: null, none does. */
  readonly roleChanges?: RoleBalanceSettings | null;
  readonly onDecision?: (line: string) => void;
  /** Receives each request when it has ended, or was rejected. */
  readonly onRequest?: (row: PoolRequestRow) => void;
  /** Receives the number of requests that ended, now and then. */
  readonly onProgress?: (requests: number) => void;
}
