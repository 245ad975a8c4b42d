import type { KvEventSource } from "#engine";
import {
  isLost,
  type KvEventItem,
  type KvEventReader,
  type KvSnapshot,
  kvEventJson,
  kvRunJson,
  kvSnapshotJson,
  type TokenForm,
} from "#kvcache";
import type { EventStream } from "../event-stream.ts";
import { eventName, type ResumePoint } from "./resume-point.ts";

/** Maximum events of one write, and blocks of one `snapshot` event. */
const ITEMS_PER_WRITE = 256;
const BLOCKS_PER_PART = 1024;
const MS_PER_SECOND = 1000;

/** How a client wants its events. */
export interface EventForm {
  /** By group of layers. */
  readonly windowSizes: readonly number[];
  readonly tokens: TokenForm;
  /** Runs of stored blocks are written as `kvRunJson` does. */
  readonly isPacked: boolean;
  /** Each event tells when it came. */
  readonly isTimed: boolean;
}

/**
 * One client's stream of events. Events are messages without a name, in TensorRT-LLM's JSON; before
 * the first event, and after lost events, `snapshot` messages are sent: one per 1024 blocks, the
 * last with `"last":true` and an id to resume from.
 */
export class EventFeed {
  readonly #source: KvEventSource;
  readonly #stream: EventStream;
  readonly #windowSizes: readonly number[];
  readonly #tokens: TokenForm;
  readonly #isPacked: boolean;
  readonly #isTimed: boolean;
  #reader: KvEventReader | null = null;

  constructor(source: KvEventSource, stream: EventStream, form: EventForm) {
    this.#source = source;
    this.#stream = stream;
    this.#windowSizes = form.windowSizes;
    this.#tokens = form.tokens;
    this.#isPacked = form.isPacked;
    this.#isTimed = form.isTimed;
  }

  /** Sends until the client or the model is gone. Starts after `from` if those events remain. */
  async run(from: ResumePoint | null): Promise<void> {
    if (from !== null && this.#canResume(from)) this.#reader = this.#source.read(from.afterId);
    else await this.#startAnew();
    while (!this.#stream.closed) {
      const items = await this.#reader?.take();
      if (items === null || items === undefined) return;
      await this.#send(items);
    }
  }

  /** Ends the feed when the client is gone. */
  leave(): void {
    void this.#reader?.return();
  }

  /** Whether all events after this one are still buffered, and it belongs to this stream. */
  #canResume({ afterId, streamId }: ResumePoint): boolean {
    const { firstId, nextId } = this.#source;
    if (streamId !== null && streamId !== this.#source.streamId) return false;
    return afterId >= firstId - 1 && afterId < nextId;
  }

  async #send(items: readonly KvEventItem[]): Promise<void> {
    for (let start = 0; start < items.length; start += ITEMS_PER_WRITE) {
      let text = "";
      for (const item of items.slice(start, start + ITEMS_PER_WRITE)) {
        if (isLost(item)) {
          const { fromId, toId } = item;
          text += message({
            event: "lost",
            data: JSON.stringify({ from_id: fromId, to_id: toId }),
          });
          await this.#stream.send(text);
          return this.#startAnew();
        }
        const run = this.#isPacked ? kvRunJson(item) : null;
        const data = run ?? kvEventJson(item, this.#windowSizes, this.#tokens);
        const timed = this.#isTimed ? withTime(data, this.#source.timeOf(item.id)) : data;
        text += message({ id: this.#name(item.id), data: timed });
      }
      await this.#stream.send(text);
    }
  }

  async #startAnew(): Promise<void> {
    const snapshot = await this.#source.snapshot();
    this.#reader = this.#source.read(snapshot.nextId - 1);
    for (let start = 0; start === 0 || start < snapshot.blocks.length; start += BLOCKS_PER_PART) {
      await this.#stream.send(this.#snapshotPart(snapshot, start));
    }
    if (this.#stream.closed) this.leave();
  }

  /** Only a snapshot's last part has an id: a client without all parts must not resume after it. */
  #snapshotPart(snapshot: KvSnapshot, start: number): string {
    const end = start + BLOCKS_PER_PART;
    const data = kvSnapshotJson(snapshot, start, end);
    const isLast = end >= snapshot.blocks.length;
    const id = isLast ? { id: this.#name(snapshot.nextId - 1) } : {};
    return message({ event: "snapshot", data, ...id });
  }

  #name(id: number): string {
    return eventName(id, this.#source.streamId);
  }
}

/** An event's JSON, an object, with `ts`: seconds since 1970, as in vLLM's batches. */
export function withTime(json: string, ms: number | null): string {
  return ms === null ? json : `${json.slice(0, -1)},"ts":${(ms / MS_PER_SECOND).toFixed(3)}}`;
}

/** One message of a stream of server-sent events; its data has no line breaks. */
function message(parts: { id?: string; event?: string; data: string }): string {
  const { id, event, data } = parts;
  const idLine = id === undefined ? "" : `id: ${id}\n`;
  const eventLine = event === undefined ? "" : `event: ${event}\n`;
  return `${idLine}${eventLine}data: ${data}\n\n`;
}
