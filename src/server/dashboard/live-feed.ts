import type { EngineListener, EngineStats, ServedModel, TimedLook } from "#engine";
import type { EventStream } from "../event-stream.ts";
import { cacheMessage } from "./cache-message.ts";
import { LatencyWindow } from "./latency-buckets.ts";
import { nowMessage } from "./now-message.ts";
import { type EndedNews, type RequestNews, RequestWatch } from "./request-watch.ts";
import { StepBins } from "./step-bins.ts";
import { type View, Viewers } from "./viewers.ts";

/** Between two messages of the same kind. */
export const TICK_MS = 250;
/** Latencies are those of the last 10 s. */
const WINDOW_TICKS = 40;
/** Ended requests of one message. */
const ENDED_MAX = 32;
/** Cells of each level's map. */
const CELLS_MAX = 1536;
/** A look keeps the engine's thread: at most this share of the time goes to looks. */
const LOOK_SHARE = 0.005;
/** A page that goes to another view leaves and comes back: what ends meanwhile is told then. */
const LEFT_MS = 2000;
/** Least time between two looks at the levels. */
const LOOK_EVERY_MS = 500;

/** Of a model what the feed reads. */
export type WatchedModel = Pick<ServedModel, "listen" | "stats" | "look">;

/** What the feed is made of. */
export interface FeedParts {
  readonly model: WatchedModel;
  readonly viewersMax: number;
  requestsInWork(): number;
  /** Asks other threads what happened there; each tells it later, or never. */
  askOthers(take: (news: RequestNews) => void): void;
}

/** What is collected while there are viewers. */
interface Watch {
  readonly timer: NodeJS.Timeout;
  readonly requests: RequestWatch;
  readonly steps: StepBins;
  readonly firstTokens: LatencyWindow;
  readonly gaps: LatencyWindow;
  readonly stop: () => void;
}

/**
 * The stream of the server's state. The state is collected once a tick for all viewers together,
 * and only while there are some, and 2 s longer: then nothing listens and no timer runs.
 */
export class LiveFeed {
  readonly #parts: FeedParts;
  readonly #viewers: Viewers;
  #watch: Watch | null = null;
  /** When the last viewer left. */
  #leftMs = 0;
  #ended: EndedNews[] = [];
  #endedMore = 0;
  /** The look under way, or not due yet. */
  #looking = false;
  #lookDueMs = 0;
  /** Of the last look: without further steps, contents change only at moves between levels. */
  #lastCache: string | null = null;

  constructor(parts: FeedParts) {
    this.#parts = parts;
    this.#viewers = new Viewers(parts.viewersMax);
  }

  get viewerCount(): number {
    return this.#viewers.count;
  }

  /** Throws QUEUE_FULL where no further viewer may come. */
  checkRoom(): void {
    this.#viewers.checkRoom();
  }

  /** Sends to a stream until what is returned is called. */
  join(stream: EventStream, view: View): () => void {
    const leave = this.#viewers.add(stream, view);
    this.#watch ??= this.#begin();
    if (view === "cache") {
      if (this.#lastCache !== null) stream.send(this.#lastCache);
      this.#lookDueMs = Math.min(this.#lookDueMs, performance.now());
    }
    return () => {
      leave();
      this.#leftMs = performance.now();
    };
  }

  /** Ends all streams. */
  close(): void {
    this.#viewers.close();
    this.#end();
  }

  #begin(): Watch {
    const { model } = this.#parts;
    const steps = new StepBins(model.stats());
    const listener: EngineListener = {
      onStep: (report, stats) => steps.add(report, stats, performance.now()),
    };
    return {
      steps,
      timer: setInterval(() => this.#tick(), TICK_MS).unref(),
      requests: new RequestWatch(model),
      firstTokens: new LatencyWindow(WINDOW_TICKS),
      gaps: new LatencyWindow(WINDOW_TICKS),
      stop: model.listen(listener),
    };
  }

  #end(): void {
    if (this.#watch === null) return;
    clearInterval(this.#watch.timer);
    this.#watch.requests.close();
    this.#watch.stop();
    this.#watch = null;
    this.#lastCache = null;
    this.#ended = [];
    this.#endedMore = 0;
  }

  #tick(): void {
    const watch = this.#watch;
    if (watch === null) return;
    if (this.#viewers.count === 0) {
      if (performance.now() - this.#leftMs >= LEFT_MS) this.#end();
      return;
    }
    this.#take(watch.requests.take());
    this.#parts.askOthers((news) => this.#take(news));
    const stats = this.#parts.model.stats();
    const message = nowMessage({
      ...{ nowMs: performance.now(), stats, requestsInWork: this.#parts.requestsInWork() },
      ...{ firstToken: watch.firstTokens.quantiles(), gap: watch.gaps.quantiles() },
      ...{ steps: watch.steps.take(), ended: this.#ended, endedMore: this.#endedMore },
      viewers: this.#viewers.count,
    });
    this.#ended = [];
    this.#endedMore = 0;
    watch.firstTokens.turn();
    watch.gaps.turn();
    this.#viewers.send(namedEvent("now", message));
    if (this.#viewers.has("cache")) void this.#look(stats);
  }

  #take({ firstTokens, gaps, ended, endedMore }: RequestNews): void {
    if (this.#watch === null) return;
    this.#watch.firstTokens.add(firstTokens);
    this.#watch.gaps.add(gaps);
    const room = ENDED_MAX - this.#ended.length;
    this.#ended.push(...ended.slice(0, room));
    this.#endedMore += endedMore + Math.max(0, ended.length - room);
  }

  async #look(stats: EngineStats): Promise<void> {
    const { model } = this.#parts;
    const nowMs = performance.now();
    if (model.look === undefined || this.#looking || nowMs < this.#lookDueMs) return;
    this.#looking = true;
    try {
      const look: TimedLook = await model.look({ cellsMax: CELLS_MAX });
      this.#lookDueMs = nowMs + Math.max(LOOK_EVERY_MS, look.tookMs / LOOK_SHARE);
      const text = namedEvent("cache", cacheMessage(look, stats.cache));
      if (text !== this.#lastCache) this.#viewers.send(text, "cache");
      this.#lastCache = text;
    } catch {
      // A model without a cache, or one that ended: its state is told by `now`.
      this.#lookDueMs = Number.POSITIVE_INFINITY;
    } finally {
      this.#looking = false;
    }
  }
}

/** One event with a name; JSON has no line breaks. */
export function namedEvent(name: string, data: unknown): string {
  return `event: ${name}\ndata: ${JSON.stringify(data)}\n\n`;
}
