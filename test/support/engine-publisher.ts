/** A publisher as engines have one, which loses and repeats batches when it is told to. */
import { setTimeout as sleep } from "node:timers/promises";
import { encode } from "@msgpack/msgpack";
import { Publisher, Router } from "zeromq";

const END = Buffer.alloc(8, 0xff);
const EMPTY = Buffer.alloc(0);

export interface EnginePublisherOptions {
  /** vLLM from 0.26 on sends the topic in replays; earlier ones, and SGLang, do not. */
  readonly replayTopic?: boolean;
  readonly replayBatches?: number;
  readonly endpoint?: string;
  readonly replayEndpoint?: string;
}

export class EnginePublisher {
  readonly #publisher = new Publisher({ sendHighWaterMark: 100_000, linger: 0 });
  readonly #router = new Router({ sendHighWaterMark: 0, linger: 0 });
  readonly #options: EnginePublisherOptions;
  readonly #kept: { readonly sequence: bigint; readonly payload: Uint8Array }[] = [];
  #next = 0n;
  replays = 0;

  private constructor(options: EnginePublisherOptions) {
    this.#options = options;
  }

  static async start(options: EnginePublisherOptions = {}): Promise<EnginePublisher> {
    const publisher = new EnginePublisher(options);
    await bind(publisher.#publisher, options.endpoint ?? "tcp://127.0.0.1:0");
    await bind(publisher.#router, options.replayEndpoint ?? "tcp://127.0.0.1:0");
    publisher.#answer().catch(() => {}); // It ends with its socket.
    return publisher;
  }

  get endpoint(): string {
    return this.#publisher.lastEndpoint ?? "";
  }

  get replayEndpoint(): string {
    return this.#router.lastEndpoint ?? "";
  }

  /** Sends a batch; a lost one is only kept for replays. */
  async publish(events: readonly unknown[], { lost = false, rank = 0 } = {}): Promise<void> {
    await this.send(encode([1789095808.5, events, rank], { useBigInt64: true }), lost);
  }

  async send(payload: Uint8Array, lost = false): Promise<void> {
    const sequence = this.#next++;
    this.#kept.push({ sequence, payload });
    if (this.#kept.length > (this.#options.replayBatches ?? 100_000)) this.#kept.shift();
    if (!lost) await this.#publisher.send(["kv", frame(sequence), payload]);
  }

  async sendFrames(...frames: readonly (string | Uint8Array)[]): Promise<void> {
    await this.#publisher.send(frames.map((each) => Buffer.from(each as Uint8Array)));
  }

  async close(): Promise<void> {
    this.#publisher.close();
    this.#router.close();
  }

  async #answer(): Promise<void> {
    const topic = this.#options.replayTopic === false ? [] : ["kv"];
    for await (const [client = EMPTY, , start = EMPTY] of this.#router) {
      this.replays++;
      const from = start.readBigUInt64BE();
      for (const { sequence, payload } of this.#kept) {
        if (sequence < from) continue;
        await this.#router.send([client, EMPTY, ...topic, frame(sequence), payload]);
      }
      const end = topic.length === 0 ? [] : [EMPTY];
      await this.#router.send([client, EMPTY, ...end, END, EMPTY]);
    }
  }
}

/** A socket that was closed keeps its address for a moment. */
async function bind(socket: Publisher | Router, endpoint: string): Promise<void> {
  for (let tries = 0; ; tries++) {
    try {
      return await socket.bind(endpoint);
    } catch (error) {
      if (tries === 100) throw error;
      await sleep(20);
    }
  }
}

function frame(sequence: bigint): Buffer {
  const bytes = Buffer.alloc(8);
  bytes.writeBigUInt64BE(sequence);
  return bytes;
}
