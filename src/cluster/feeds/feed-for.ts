import type { KvFeed, WorkerInfo } from "#cluster/protocol";
import { engineFeed } from "./engine-feed.ts";
import type { FeedOptions } from "./feed-options.ts";
import { PerigeeFeed } from "./perigee-feed.ts";
import { RedisFeed } from "./redis-feed.ts";
import { TrtllmFeed } from "./trtllm-feed.ts";

/** The feed of a worker's events; null: its cache announces nothing, or nothing that is read. */
export function feedFor(worker: WorkerInfo, options: FeedOptions = {}): KvFeed | null {
  if (worker.kv === null) return null;
  switch (worker.kind) {
    case "perigee": {
      const { redis = null } = options;
      const { stream: key } = worker.kv;
      const isStreamed = redis !== null && key !== undefined;
      if (isStreamed) return new RedisFeed(worker, { redis, key }, options);
      return new PerigeeFeed(worker, options);
    }
    case "vllm":
    case "sglang":
      return engineFeed(worker, options);
    case "tensorrt-llm":
      return new TrtllmFeed(worker, options);
    default:
      return null;
  }
}
