/**
 * Batches of events kept for subscribers that missed some, and the answers to replay requests. The
 * format is that of vLLM 0.26 and later: with a topic frame, which earlier versions do not send
 * (V 2.1).
 */
import type { Router } from "zeromq";

const BYTES_MAX = 2 ** 28;
const SEQUENCE_BYTES = 8;
const EMPTY = Buffer.alloc(0);
/** In place of a sequence number: the end of the replay. */
const END = Buffer.alloc(SEQUENCE_BYTES, 0xff);

interface Batch {
  readonly sequence: bigint;
  readonly payload: Uint8Array;
}

/** A sequence number as a frame: 8 bytes, big-endian. */
export function sequenceFrame(sequence: bigint): Buffer {
  const frame = Buffer.alloc(SEQUENCE_BYTES);
  frame.writeBigUInt64BE(sequence);
  return frame;
}

/** The newest batches: at most `batchesMax`, and at most 256 MiB. */
export class ReplayBuffer {
  readonly #batches: Batch[] = [];
  readonly #batchesMax: number;
  readonly #bytesMax: number;
  #bytes = 0;

  constructor(batchesMax: number, bytesMax: number = BYTES_MAX) {
    this.#batchesMax = batchesMax;
    this.#bytesMax = bytesMax;
  }

  add(sequence: bigint, payload: Uint8Array): void {
    this.#batches.push({ sequence, payload });
    this.#bytes += payload.length;
    while (this.#batches.length > this.#batchesMax || this.#bytes > this.#bytesMax) {
      this.#bytes -= this.#batches.shift()?.payload.length ?? 0;
    }
  }

  /** The kept batches from this sequence number on. */
  from(sequence: bigint): readonly Batch[] {
    return this.#batches.filter((batch) => batch.sequence >= sequence);
  }
}

/**
 * Answers requests [client, "", start] until the socket is closed: [client, "", topic, sequence,
 * payload] per kept batch, then [client, "", "", 8 · 0xFF, ""]. Other messages are ignored.
 */
export async function answerReplays(
  router: Router,
  buffer: ReplayBuffer,
  topic: string,
): Promise<void> {
  for await (const [client, delimiter, start, ...more] of router) {
    const isRequest = delimiter?.length === 0 && start?.length === SEQUENCE_BYTES;
    if (client === undefined || !isRequest || more.length > 0) continue;
    for (const { sequence, payload } of buffer.from(start.readBigUInt64BE())) {
      await router.send([client, EMPTY, topic, sequenceFrame(sequence), payload]);
    }
    await router.send([client, EMPTY, EMPTY, END, EMPTY]);
  }
}
