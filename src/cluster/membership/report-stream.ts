import type { AnswerListener, Listening, WorkerHttp } from "#cluster/http";
import { readReportText } from "./probe.ts";
import type { ReportedWorker } from "./worker-info-reader.ts";

/** Of a report, and of all that comes between two looks. */
const BYTES_MAX = 1 << 20;
/** A piece counts for as many bytes at least, since each takes time. */
const PIECE_BYTES_LEAST = 256;
/** A worker whose answer, or next line, is later than this beyond its time is asked anew. */
const LATE_MS = 2000;
const NEWLINE = 10;

/** Whom a stream follows, and who is told. */
export interface ReportStreamOptions {
  /** The worker's. */
  readonly url: string;
  /** The fleet's. */
  readonly secret: string | null;
  readonly http: WorkerHttp;
  /** Between two reports. */
  readonly intervalMs: number;
  readonly onReport: (report: ReportedWorker) => void;
}

/**
 * One question to a worker of ours, and what it says of itself from then on: lines of JSON, where
 * an empty one says that all is as before. A worker that is older answers with one report and an
 * end. No more than a report in half an interval is read, the last one, whatever a worker sends.
 */
export class ReportStream implements AnswerListener {
  readonly #options: ReportStreamOptions;
  readonly #listening: Listening;
  /** Of a line that has not ended, in Latin-1. */
  #rest = "";
  #bytes = 0;
  #heardMs: number;
  #toldMs = Number.NEGATIVE_INFINITY;
  /** Lines have come that were not told of. */
  #hasNews = false;
  /** The last line with a report, in Latin-1, until it is read. */
  #line: string | null = null;
  #report: ReportedWorker | null = null;
  #isOver = false;

  constructor(options: ReportStreamOptions) {
    const { url, secret, http, intervalMs } = options;
    this.#options = options;
    // The first line is due at once.
    this.#heardMs = performance.now() - intervalMs;
    const headers = secret === null ? {} : { authorization: `Bearer ${secret}` };
    this.#listening = http.listen(`${url}/worker_info?follow=on`, headers, this);
  }

  /** The worker's, when it was asked. */
  get url(): string {
    return this.#options.url;
  }

  /** Nothing follows: the worker is to be asked anew. */
  get isOver(): boolean {
    return this.#isOver;
  }

  /** Looks whether the worker is late, or sends too much. To be called once an interval. */
  look(nowMs: number): void {
    this.#bytes = 0;
    if (nowMs - this.#heardMs > this.#options.intervalMs + LATE_MS) this.close();
    else if (this.#hasNews) this.#tell(nowMs);
  }

  /** Ends the question; nothing is told any more. */
  close(): void {
    this.#isOver = true;
    this.#listening.stop();
  }

  onHead(status: number): boolean {
    return status === 200;
  }

  onPiece(bytes: Buffer): void {
    this.#bytes += Math.max(bytes.length, PIECE_BYTES_LEAST);
    const length = this.#rest.length + bytes.length;
    if (Math.max(this.#bytes, length) > BYTES_MAX) {
      this.close();
      return;
    }
    const end = bytes.lastIndexOf(NEWLINE) + 1;
    if (end === 0) {
      this.#rest += bytes.toString("latin1");
      return;
    }
    this.#take(this.#rest + bytes.toString("latin1", 0, end));
    this.#rest = bytes.toString("latin1", end);
  }

  onEnd(failure: Error | null): void {
    if (failure === null && this.#rest !== "") {
      // The one report of a worker that is older.
      this.#take(this.#rest);
      if (this.#hasNews) this.#tell(this.#heardMs);
    }
    this.#isOver = true;
  }

  #take(lines: string): void {
    const nowMs = performance.now();
    this.#heardMs = nowMs;
    this.#hasNews = true;
    this.#line = lastLine(lines) ?? this.#line;
    if (nowMs - this.#toldMs >= this.#options.intervalMs / 2) this.#tell(nowMs);
  }

  #tell(nowMs: number): void {
    this.#hasNews = false;
    this.#toldMs = nowMs;
    if (this.#line !== null) this.#report = this.#read(this.#line);
    this.#line = null;
    if (this.#report !== null) this.#options.onReport(this.#report);
  }

  /** Null: it cannot be a worker's. Membership notices, and says so. */
  #read(line: string): ReportedWorker | null {
    try {
      return readReportText(this.#options.url, Buffer.from(line, "latin1").toString());
    } catch {
      return null;
    }
  }
}

/** Null: all are empty. */
function lastLine(lines: string): string | null {
  if (lines === "\n") return null;
  const text = lines.trimEnd();
  return text === "" ? null : text.slice(text.lastIndexOf("\n") + 1);
}
