import type { KvFeed, WorkerInfo, ZmqEvents } from "#cluster/protocol";
import { FeedGroup } from "./feed-group.ts";
import type { FeedOptions } from "./feed-options.ts";
import { feedSettings } from "./feed-options.ts";
import { frameBytesMax, ZmqFeed } from "./zmq-feed.ts";

/** Default ports of vLLM and SGLang; there are replays only where an address is given. */
const PORT = 5557;

/**
 * Follows a vLLM or SGLang server's publishers, one per data-parallel rank. Both publish the same
 * way; the reader of events takes the fields of either.
 */
export function engineFeed(worker: WorkerInfo, options: FeedOptions = {}): KvFeed {
  const zmq = worker.kv?.zmq ?? defaultEvents(worker.url);
  const settings = feedSettings(options);
  const feeds = Array.from({ length: zmq.ranks }, (_, rank) => {
    const target = {
      endpoint: rankEndpoint(zmq.endpoint, rank),
      replayEndpoint: zmq.replayEndpoint === null ? null : rankEndpoint(zmq.replayEndpoint, rank),
      topic: zmq.topic,
      messageBytesMax: frameBytesMax(settings),
      retryMs: settings.retryMs,
    };
    return new ZmqFeed(worker, target, options);
  });
  const [only] = feeds;
  return feeds.length === 1 && only !== undefined ? only : new FeedGroup(feeds);
}

/** The address of a rank: its port is `rank` higher (V 2.1). */
export function rankEndpoint(endpoint: string, rank: number): string {
  if (rank === 0) return endpoint;
  const port = /:(\d+)$/.exec(endpoint)?.[1];
  if (port === undefined) return `${endpoint}_dp${rank}`;
  return `${endpoint.slice(0, -port.length)}${Number(port) + rank}`;
}

function defaultEvents(url: string): ZmqEvents {
  const endpoint = `tcp://${new URL(url).hostname}:${PORT}`;
  return { endpoint, replayEndpoint: null, topic: "", ranks: 1 };
}
