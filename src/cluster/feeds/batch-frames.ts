/** Frames of messages of vLLM's publisher and its kin (V 2.1). */

const SEQUENCE_BYTES = 8;
const END = Buffer.alloc(SEQUENCE_BYTES, 0xff);

/** One batch of events, as it travels. */
export interface Batch {
  readonly sequence: bigint;
  /** Msgpack of [seconds, events, rank]. */
  readonly payload: Buffer;
}

/** A published message: topic, sequence number, payload. Null for any other. */
export function publishedBatch(frames: readonly Buffer[]): Batch | null {
  const [, sequence, payload] = frames;
  if (frames.length !== 3 || sequence?.length !== SEQUENCE_BYTES) return null;
  return payload === undefined ? null : { sequence: sequence.readBigUInt64BE(), payload };
}

/**
 * An answer to a request for a replay. Publishers before vLLM 0.26, and SGLang's, leave the topic
 * out (vllm #45174): two frames behind the delimiter instead of three.
 */
export function replayedBatch(frames: readonly Buffer[]): Batch | "end" | null {
  const [sequence, payload] = frames.slice(-2);
  const isAnswer = frames.length === 3 || frames.length === 4;
  if (!isAnswer || frames[0]?.length !== 0 || payload === undefined) return null;
  if (sequence?.length !== SEQUENCE_BYTES) return null;
  if (payload.length === 0 || sequence.equals(END)) return "end";
  return { sequence: sequence.readBigUInt64BE(), payload };
}

/** A request for all batches kept, from this one on. */
export function replayRequest(from: bigint): Buffer[] {
  const start = Buffer.alloc(SEQUENCE_BYTES);
  start.writeBigUInt64BE(from);
  return [Buffer.alloc(0), start];
}
