import type { KvFeed, WorkerInfo } from "#cluster/protocol";
import type { FeedOptions } from "./feed-options.ts";
import { PerigeeFeed } from "./perigee-feed.ts";

/** The feed of a worker's events; null: its cache announces nothing, or nothing that is read. */
export function feedFor(worker: WorkerInfo, options: FeedOptions = {}): KvFeed | null {
  if (worker.kv === null) return null;
  return worker.kind === "perigee" ? new PerigeeFeed(worker, options) : null;
}
