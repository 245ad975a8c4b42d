/** Counts and events of one call of `ingest`, and what of the corpus must stay. */
import { Channel } from "./channel.ts";
import type { IngestCounts, IngestEvent, IngestProblem, IngestReport } from "./events.ts";

/** Events that wait to be taken; then ingestion waits. */
const EVENTS_AHEAD = 256;
const PROGRESS_MS = 500;

type Counted = Exclude<keyof IngestCounts, "seconds" | "chunksPerSecond">;

/** The books of one call. */
export class IngestBooks {
  readonly events = new Channel<IngestEvent>(EVENTS_AHEAD);
  readonly #since = performance.now();
  readonly #counts: Record<Counted, number> = {
    ...{ files: 0, bytes: 0, documents: 0, stored: 0, unchanged: 0, empty: 0, skipped: 0 },
    ...{ failed: 0, removed: 0, chunksCut: 0, chunksEmbedded: 0, chunksStored: 0 },
  };
  readonly #failures: IngestProblem[] = [];
  readonly #skips: IngestProblem[] = [];
  readonly #seen = new Set<string>();
  readonly #kept = new Set<string>();
  #toldMs = 0;

  count(what: Counted, by = 1): void {
    this.#counts[what] += by;
  }

  /** Notes that a document is still there; false: it was noted before. */
  see(id: string): boolean {
    if (this.#seen.has(id)) return false;
    this.#seen.add(id);
    return true;
  }

  /** Whether a stored document may be gone: neither seen, nor below what could not be read. */
  mayBeGone(id: string): boolean {
    if (this.#seen.has(id) || this.#kept.has("")) return false;
    // A name is below another one where a folder's or a file's name ends.
    for (let at = 0; at <= id.length; at++) {
      const mark = id[at] ?? "/";
      if ((mark === "/" || mark === "#") && this.#kept.has(id.slice(0, at))) return false;
    }
    return true;
  }

  /** What is stored of a file or below a folder stays. */
  keep(id: string): void {
    this.#kept.add(id);
  }

  async settled(
    id: string,
    state: "stored" | "unchanged" | "empty" | "removed",
    chunks: number,
  ): Promise<void> {
    this.count(state);
    await this.#tell({ type: "document", id, state, chunks });
  }

  /** A file, row or folder that cannot be read: what is stored of it stays. */
  async failed(id: string, reason: string): Promise<void> {
    this.count("failed");
    this.keep(id);
    this.#failures.push({ id, reason });
    await this.#tell({ type: "problem", state: "failed", id, reason });
  }

  async skipped(id: string, reason: string): Promise<void> {
    this.count("skipped");
    this.#skips.push({ id, reason });
    await this.#tell({ type: "problem", state: "skipped", id, reason });
  }

  async progress(): Promise<void> {
    const nowMs = performance.now();
    if (nowMs - this.#toldMs < PROGRESS_MS) return;
    this.#toldMs = nowMs;
    await this.events.add({ type: "progress", ...this.counts() });
  }

  report(): IngestReport {
    return { ...this.counts(), failures: this.#failures, skips: this.#skips };
  }

  counts(): IngestCounts {
    const seconds = (performance.now() - this.#since) / 1000;
    const chunksPerSecond = this.#counts.chunksStored / Math.max(seconds, 0.001);
    return { ...this.#counts, seconds, chunksPerSecond };
  }

  async #tell(event: IngestEvent): Promise<void> {
    await this.events.add(event);
    await this.progress();
  }
}
