/** Those who watch: each gets the same text at the same time, or misses it. */
import { EngineError } from "#base";
import type { EventStream } from "../event-stream.ts";

/** Messages that one viewer may miss in a row; then its stream ends. */
const MISSED_MAX = 20;

/** What of the server a viewer sees: messages of other kinds are not sent to it. */
export type View = "now" | "cache";

interface Viewer {
  readonly stream: EventStream;
  readonly view: View;
  /** It has not taken what was sent before. */
  behind: boolean;
  missed: number;
}

/**
 * Sends to all viewers. A viewer that has not taken the message before misses the next one: nothing
 * waits for it but that one message. After some in a row it is disconnected.
 */
export class Viewers {
  readonly #most: number;
  readonly #viewers = new Set<Viewer>();

  constructor(most: number) {
    this.#most = most;
  }

  get count(): number {
    return this.#viewers.size;
  }

  /** Whether any of them has this view. */
  has(view: View): boolean {
    for (const viewer of this.#viewers) if (viewer.view === view) return true;
    return false;
  }

  /** Throws QUEUE_FULL where there are as many as may be. */
  checkRoom(): void {
    if (this.#viewers.size < this.#most) return;
    throw new EngineError(
      "QUEUE_FULL",
      `Cannot watch: at most ${this.#most} pages may be open, current value is ` +
        `${this.#viewers.size}; close another one or raise dashboardViewersMax`,
    );
  }

  /** Adds a stream; call what is returned when it has ended. */
  add(stream: EventStream, view: View): () => void {
    const viewer: Viewer = { stream, view, behind: false, missed: 0 };
    this.#viewers.add(viewer);
    return () => void this.#viewers.delete(viewer);
  }

  /** Sends whole events to those of a view; null: to all. */
  send(events: string, view: View | null = null): void {
    for (const viewer of this.#viewers) {
      if (view === null || viewer.view === view) this.#sendTo(viewer, events);
    }
  }

  /** Ends all streams. */
  close(): void {
    for (const { stream } of this.#viewers) stream.close();
    this.#viewers.clear();
  }

  #sendTo(viewer: Viewer, events: string): void {
    const { stream } = viewer;
    if (viewer.behind) {
      viewer.missed++;
      if (viewer.missed > MISSED_MAX) stream.cutOff();
      return;
    }
    viewer.missed = 0;
    const room = stream.send(events);
    if (room === null) return;
    viewer.behind = true;
    void room.then(() => {
      viewer.behind = false;
    });
  }
}
