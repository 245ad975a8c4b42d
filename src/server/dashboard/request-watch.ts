/** What happened to the requests of one thread, between two looks of people who watch. */
import type { EngineListener, RequestSummary, RequestTimes } from "#engine";
import { bucketOf } from "./latency-buckets.ts";

/** Ended requests that are told one by one; others are counted. */
const ENDED_MAX = 32;

/** One ended request, without anything that was said in it. */
export interface EndedNews {
  readonly promptTokens: number;
  readonly cachedTokens: number;
  readonly generatedTokens: number;
  readonly queueSeconds: number;
  readonly prefillSeconds: number;
  readonly decodeSeconds: number;
}

/** Counts of latencies by bucket, as [bucket, count, …]. */
export type SparseCounts = readonly number[];

/** What one thread tells: plain data. */
export interface RequestNews {
  readonly firstTokens: SparseCounts;
  readonly gaps: SparseCounts;
  readonly ended: readonly EndedNews[];
  /** Ended requests that are not in the list. */
  readonly endedMore: number;
}

/** Nothing happened. */
export const NO_NEWS: RequestNews = { firstTokens: [], gaps: [], ended: [], endedMore: 0 };

/** Listens to a model while it exists: some 20 ns a token. */
export class RequestWatch {
  readonly #firstTokens = new Map<number, number>();
  readonly #gaps = new Map<number, number>();
  #ended: EndedNews[] = [];
  #endedMore = 0;
  readonly #stop: () => void;

  constructor(model: { listen(listener: EngineListener): () => void }) {
    this.#stop = model.listen({
      onFirstToken: (_id, seconds) => count(this.#firstTokens, seconds),
      onTokens: (_id, _count, seconds) => count(this.#gaps, seconds),
      onRequestEnd: (times, summary) => this.#end(times, summary),
    });
  }

  /** What happened since the last call. */
  take(): RequestNews {
    const news = {
      firstTokens: [...this.#firstTokens].flat(),
      gaps: [...this.#gaps].flat(),
      ended: this.#ended,
      endedMore: this.#endedMore,
    };
    this.#firstTokens.clear();
    this.#gaps.clear();
    this.#ended = [];
    this.#endedMore = 0;
    return news;
  }

  close(): void {
    this.#stop();
  }

  #end(times: RequestTimes, summary: RequestSummary): void {
    if (this.#ended.length === ENDED_MAX) {
      this.#endedMore++;
      return;
    }
    const { promptTokens, cachedTokens, generatedTokens } = summary;
    const { queueSeconds, prefillSeconds, decodeSeconds } = times;
    this.#ended.push({
      ...{ promptTokens, cachedTokens, generatedTokens },
      ...{ queueSeconds, prefillSeconds, decodeSeconds },
    });
  }
}

function count(counts: Map<number, number>, seconds: number): void {
  const bucket = bucketOf(seconds);
  counts.set(bucket, (counts.get(bucket) ?? 0) + 1);
}
