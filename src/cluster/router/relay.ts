/** One request at the router: attempts at workers, until it is answered. */
import { EngineError } from "#base";
import { HttpError } from "#server";
import { Attempt, type Outcome, type WorkerAnswer } from "./attempt.ts";
import { ClientStream } from "./client-stream.ts";
import { MarkerReader } from "./marker-reader.ts";
import { bodyFor } from "./order-body.ts";
import { type PromptUsage, usageIn } from "./prompt-usage.ts";
import {
  busyMs,
  endOf,
  isComplete,
  NOT_SENT,
  passedHeaders,
  refusedKey,
  unroutedError,
} from "./relay-answers.ts";
import type {
  LastFailure,
  Place,
  RelayAnswer,
  RelayNotes,
  RelayOrder,
  RelayTools,
} from "./relay-order.ts";
import { isStale } from "./role-news.ts";
import { lineReader, type StreamReader } from "./stream-reader.ts";
import type { Watched } from "./sweep.ts";
import type { Waiting } from "./waiting-room.ts";
import { answerText, isMarkable, isMarked } from "./worker-body.ts";
import type { WorkerLink } from "./worker-link.ts";

export class Relay implements Watched {
  readonly notes: RelayNotes = { workerId: null, attempts: 0, migrations: 0, outputTokens: 0 };
  readonly #tools: RelayTools;
  readonly #order: RelayOrder;
  readonly #client: ClientStream;
  readonly #excluded: Set<string>;
  /** Workers that were full. */
  readonly #busy = new Set<string>();
  readonly #marked: MarkerReader | null;
  #attempt: Attempt | null = null;
  #waiting: Waiting | null = null;
  #cancelled = false;
  /** What costs a worker little goes to it at once. */
  #mayWait: boolean;
  #retries = 0;
  #stales = 0;
  #cachedTokens = 0;
  #last: LastFailure | null = null;
  /** Workers that say they failed: one is to blame where another one succeeds. */
  readonly #doubted: WorkerLink[] = [];
  /** Its fingerprint, once the client has tokens of a worker. */
  #begunAt: WorkerLink | null = null;

  constructor(tools: RelayTools, order: RelayOrder) {
    const { request, response, form } = order;
    this.#tools = tools;
    this.#order = order;
    this.#excluded = new Set(order.excluded);
    this.#client = new ClientStream(response, form);
    this.#mayWait = request.kind !== "other";
    this.#marked = isMarked(request) ? new MarkerReader(request.choiceCount) : null;
  }

  /** Worker that has the request now; null: none. */
  get workerId(): string | null {
    return this.#attempt === null ? null : this.notes.workerId;
  }

  /** The client is gone: its worker is told at once. */
  cancel(): void {
    this.#cancelled = true;
    this.#waiting?.leave();
    this.#attempt?.cancel();
  }

  workerGone(reason: string): void {
    this.#attempt?.workerGone(reason);
  }

  look(nowMs: number): void {
    const { limits, native } = this.#tools;
    if (nowMs - this.#client.sentMs < limits.streamKeepAliveMs) return;
    if (this.#attempt?.isLent === true) {
      native?.drain();
      if (nowMs - this.#client.sentMs < limits.streamKeepAliveMs) return;
      this.#attempt?.takeBack();
    }
    if (this.#order.request.stream) this.#client.keepAlive(nowMs);
  }

  /** Rejects with what the client is to be told; behind the first byte it is told already. */
  async run(): Promise<RelayAnswer> {
    const { sweep } = this.#tools;
    sweep.add(this);
    try {
      for (;;) {
        const place = this.#mayWait ? await this.#routeInTurn() : this.#route();
        if (place === null && this.#cancelled) return null;
        const answer = place === null ? this.#giveUp() : await this.#try(place);
        if (answer !== "again") return answer;
      }
    } finally {
      sweep.delete(this);
    }
  }

  /** Behind those who wait, where all workers are full. Null: no worker is left. */
  async #routeInTurn(): Promise<Place | null> {
    this.#mayWait = false;
    if (this.#cancelled) return null;
    const { query, key, request } = this.#order;
    const found: { place: Place | null } = { place: null };
    this.#waiting = this.#tools.room.enter({
      query: { ...query, excluded: this.#excluded },
      ...{ key, priority: request.priority, bytes: request.text.length },
      go: () => {
        found.place = this.#route();
      },
    });
    if (this.#waiting === null) return this.#route();
    try {
      await this.#waiting.over;
    } finally {
      this.#waiting = null;
    }
    return found.place;
  }

  /** Null: no worker is left. */
  #route(): Place | null {
    const { dispatcher, links } = this.#tools;
    for (;;) {
      const query = { ...this.#order.query, excluded: this.#excluded };
      const found = dispatcher.route(query);
      if (found.type === "unrouted") {
        this.#last ??= {
          error: unroutedError(found.reason, this.#order.request.model, found.rejection),
          answer: null,
        };
        return null;
      }
      const link = links.find(found.worker.id);
      if (link !== null && this.#mayContinue(link)) {
        const { hits, shared, room } = this.#tools;
        found.reservation.watch(room.watcher);
        // Now, not when the attempt begins: of many that are admitted at once, one tries a worker.
        link.breaker.begin();
        const endWatch = hits.routed(query, found, this.#order.origin);
        return { ...found, link, endWatch, shared: shared?.routed(found) ?? null };
      }
      found.reservation.end("failed");
      this.#excluded.add(found.worker.id);
    }
  }

  /** A worker of another fingerprint would go on with other tokens. */
  #mayContinue({ info }: WorkerLink): boolean {
    const begun = this.#client.hasContent ? this.#begunAt : null;
    return begun === null || begun.info.fingerprint === info.fingerprint;
  }

  async #try(routed: Place): Promise<RelayAnswer | "again"> {
    const { link, reservation } = routed;
    const { metrics } = this.#tools;
    this.notes.workerId = link.info.id;
    this.notes.attempts++;
    metrics.routed(routed);
    // Later attempts began when the one before failed: that time is the worker's, not the router's.
    if (this.notes.attempts === 1) metrics.dispatched(this.#order.arrivedMs);
    const reader = this.#readerFor(link);
    this.#attempt = this.#attemptAt(routed, reader);
    const outcome = this.#cancelled ? CANCELLED : await this.#attempt.run();
    this.#attempt = null;
    const stale = isStale(outcome, routed.worker);
    reservation.end(stale ? "cancelled" : endOf(outcome));
    routed.shared?.end();
    this.#tools.dispatcher.traffic.ended(reservation.outputTokens);
    routed.endWatch(this.#usageOf(outcome), isComplete(outcome));
    return stale ? this.#routeAnew(routed) : this.#judge(outcome, link);
  }

  /** The worker's role had changed: nothing was computed, and no one failed. */
  async #routeAnew({ link, worker }: Place): Promise<RelayAnswer | "again"> {
    link.breaker.undecided();
    this.#tools.metrics.ended(worker.id, "stale");
    const knows = await this.#tools.roles.learn(link, worker);
    if (knows && this.#stales++ < STALES_MAX) return "again";
    return this.#goOn(link, { error: unroutedError("gone", null), answer: null });
  }

  /** Null: the worker does not say, or the prompt is not computed there alone. */
  #usageOf(outcome: Outcome): PromptUsage | null {
    if (this.#order.request.promptCount > 1) return null;
    if (outcome.kind === "answered" && outcome.answer.status === 200) {
      return usageIn(outcome.answer.body);
    }
    return this.notes.migrations > 0 ? null : (this.#marked?.usage ?? null);
  }

  #judge(outcome: Outcome, link: WorkerLink): RelayAnswer | "again" {
    const { metrics } = this.#tools;
    const { id } = link.info;
    switch (outcome.kind) {
      case "cancelled":
        link.breaker.undecided();
        metrics.ended(id, "cancelled");
        return null;
      case "streamed":
      case "passed-on":
        this.#succeeded(link);
        metrics.ended(id, "ok");
        if (outcome.kind === "streamed" || outcome.complete) this.#client.end();
        else this.#order.response.destroy();
        return null;
      case "answered":
        return this.#judgeAnswer(outcome.answer, link);
      case "failed":
        if (outcome.isSaid) this.#doubt(link, outcome.error);
        else this.#blame(link, outcome.error);
        return this.#goOn(link, { error: outcome.error, answer: null });
    }
  }

  #judgeAnswer(answer: WorkerAnswer, link: WorkerLink): RelayAnswer | "again" {
    const { metrics } = this.#tools;
    const { id } = link.info;
    const { status } = answer;
    const own = { ...answer, workerId: id };
    if (status === 401 || status === 403) {
      link.breaker.undecided();
      const error = refusedKey(link.info, status);
      metrics.ended(id, "refused");
      this.#tools.warn(error.message);
      return this.#goOn(link, { error, answer: null });
    }
    if (status < 500 && status !== 429 && status !== NOT_SENT) {
      if (status < 400) this.#succeeded(link);
      else link.breaker.succeeded();
      metrics.ended(id, status < 400 ? "ok" : "client-error");
      if (!this.#client.begun) return own;
      throw new HttpError(status, "bad_request", answerText(answer.body));
    }
    const error = new EngineError(
      status === 429 ? "QUEUE_FULL" : "WORKER_FAILED",
      `Cannot relay answer: worker ${id} answers ${status}: ${answerText(answer.body)}`,
    );
    if (status === 429) {
      link.breaker.undecided();
      metrics.ended(id, "busy");
      const others = this.#tools.dispatcher.books.refused(id, busyMs(answer.headers));
      if (others > 0) this.#busy.add(id);
    } else if (status === 500 || status === NOT_SENT) this.#doubt(link, error);
    else this.#blame(link, error);
    // Its client has sent all: those words of the worker are not for it.
    return this.#goOn(link, { error, answer: status === NOT_SENT ? null : own });
  }

  #succeeded(link: WorkerLink): void {
    link.breaker.succeeded();
    for (const doubted of this.#doubted.splice(0)) this.#count(doubted);
  }

  /**
   * A worker that lives says that it failed. It may be the request: one that fails everywhere would
   * take all workers from all other clients.
   */
  #doubt(link: WorkerLink, error: EngineError): void {
    if (link.breaker.state !== "closed") {
      // It failed before for reasons of its own: this request was to tell whether it still does.
      this.#blame(link, error);
      return;
    }
    link.breaker.undecided();
    this.#tell(link, error);
    this.#doubted.push(link);
  }

  #blame(link: WorkerLink, error: EngineError): void {
    this.#tell(link, error);
    this.#count(link);
  }

  #tell({ info }: WorkerLink, { message }: EngineError): void {
    this.#tools.metrics.ended(info.id, "failed");
    this.#tools.warn(message, { requestId: this.#order.request.id, worker: info.id });
  }

  #count({ info, breaker }: WorkerLink): void {
    if (!breaker.failed()) return;
    this.#tools.warn(`worker ${info.id} gets no requests for a while: it failed repeatedly`);
  }

  /** Another worker, if there may be one; else what the client is told. */
  #goOn(link: WorkerLink, last: LastFailure): RelayAnswer | "again" {
    const { limits, metrics } = this.#tools;
    const { id } = link.info;
    this.#last = last;
    this.#excluded.add(id);
    if (this.#client.closed || this.#cancelled) return null;
    if (!this.#client.hasContent) {
      if (this.#retries >= limits.retriesMax) return this.#giveUp();
      this.#retries++;
      metrics.retried(id);
      this.#marked?.forget();
      const query = { ...this.#order.query, excluded: this.#excluded };
      this.#mayWait = this.#tools.dispatcher.awaited(query) !== null;
      return "again";
    }
    if (this.#isAllSaid()) {
      this.#client.end("data: [DONE]\n\n");
      return null;
    }
    if (!this.#canMigrate(link)) return this.#giveUp();
    this.notes.migrations++;
    metrics.migrated(id);
    this.#cachedTokens = this.#marked?.cachedTokens ?? 0;
    this.#marked?.restart();
    return "again";
  }

  /** Only the end of the stream is missing. */
  #isAllSaid(): boolean {
    const marked = this.#marked;
    if (marked === null || !marked.allEnded) return false;
    return marked.hasUsage || !this.#order.request.wantsUsage;
  }

  #canMigrate({ info }: WorkerLink): boolean {
    const { migrationsMax } = this.#tools.limits;
    if (this.#marked === null || info.fingerprint === null) return false;
    return this.notes.migrations < migrationsMax;
  }

  #giveUp(): RelayAnswer | "again" {
    if (this.#waitsForBusy()) return "again";
    const { error, answer } = this.#last ?? { error: unroutedError("gone", null), answer: null };
    const isTold = this.#client.begun;
    if (!isTold && answer !== null) return answer;
    throw error;
  }

  /** Workers that were full take it when what they have ends: it waits here for that. */
  #waitsForBusy(): boolean {
    const { arrivedMs } = this.#order;
    const { queueTimeoutMs } = this.#tools.limits;
    if (this.#busy.size === 0 || this.#client.hasContent || this.#cancelled) return false;
    if (performance.now() - arrivedMs >= queueTimeoutMs) return false;
    for (const id of this.#busy) this.#excluded.delete(id);
    this.#busy.clear();
    this.#retries = 0;
    this.#mayWait = true;
    return true;
  }

  #readerFor({ info }: WorkerLink): StreamReader | null {
    const { request } = this.#order;
    if (!request.stream) return null;
    return (isMarkable(info) ? this.#marked : null) ?? lineReader(request.kind);
  }

  #attemptAt(place: Place, reader: StreamReader | null): Attempt {
    const { link, reservation, shared, source, worker } = place;
    const { request, response, headers } = this.#order;
    const body = bodyFor(link.info, this.#order, {
      ...{ marked: this.#marked, codecs: this.#tools.codecs, cachedTokens: this.#cachedTokens },
      ...{ kvSource: source, roleEpoch: worker.roleEpoch ?? null },
    });
    const { limits, sweep, native, metrics, showWorker } = this.#tools;
    const { id } = link.info;
    const own = showWorker ? { ...headers, "x-perigee-worker": id } : headers;
    let isFirst = this.notes.migrations === 0;
    return new Attempt({
      ...{ link, reader, limits, sweep, native, client: this.#client },
      ...{ path: request.path, headers: request.headers, body, gaps: reservation.gaps },
      passOn: (status, answered) => {
        response.writeHead(status, { ...own, ...passedHeaders(answered) });
        // The client's stream writes to the connection itself.
        response.flushHeaders();
      },
      onBegin: () => {
        this.#client.begin(own);
        this.#begunAt ??= link;
      },
      onTokens: (count, by, agoMs) => {
        metrics.tokens[by] += count;
        if (isFirst) metrics.firstToken(id, this.#order.arrivedMs);
        link.breaker.answering();
        isFirst = false;
        this.notes.outputTokens += count;
        reservation.tokens(count, agoMs, by === "native");
        shared?.tokens();
      },
    });
  }
}

const STALES_MAX = 8;
const CANCELLED: Outcome = { kind: "cancelled" };
