import type { KvFeed, KvFeedSink } from "#cluster/protocol";

/**
 * Several publishers of one worker as one feed. Where one of them loses its place the whole worker
 * is forgotten: changes do not say whose they are.
 */
export class FeedGroup implements KvFeed {
  readonly #feeds: readonly KvFeed[];

  constructor(feeds: readonly KvFeed[]) {
    this.#feeds = feeds;
  }

  /** Of all together; null where one does not know its own. */
  get lag(): number | null {
    let sum = 0;
    for (const { lag } of this.#feeds) {
      if (lag === null) return null;
      sum += lag;
    }
    return sum;
  }

  start(sink: KvFeedSink): void {
    for (const feed of this.#feeds) feed.start(sink);
  }

  async close(): Promise<void> {
    await Promise.all(this.#feeds.map((feed) => feed.close()));
  }
}
