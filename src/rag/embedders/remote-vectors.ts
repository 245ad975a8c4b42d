/** Reads vectors from an answer of OpenAI's API, whatever a server may send. */
import { EngineError } from "#base";
import { field } from "./remote-call.ts";

/** What an answer must be. */
export interface WantedVectors {
  readonly url: string;
  readonly count: number;
  /** Null: not known yet. */
  readonly dimensions: number | null;
}

/** Most elements of a vector. */
export const DIMENSIONS_MAX = 16_384;
/** Bytes of an element as JSON, at most. */
const ELEMENT_BYTES = 32;
const FRAME_BYTES = 64 * 2 ** 10;

/** Most bytes of an answer with such vectors. */
export function answerBytesMax({ count, dimensions }: Omit<WantedVectors, "url">): number {
  return FRAME_BYTES + count * (dimensions ?? DIMENSIONS_MAX) * ELEMENT_BYTES;
}

/** The vectors in the order of the texts. Throws NETWORK for any other answer. */
export function vectorsIn(answer: unknown, wanted: WantedVectors): Float32Array[] {
  const { count } = wanted;
  const data = field(answer, "data");
  if (!Array.isArray(data) || data.length !== count) {
    throw wrong(wanted, `${count} vectors`, Array.isArray(data) ? `${data.length}` : "no list");
  }
  const vectors: (Float32Array | undefined)[] = Array.from({ length: count });
  for (const [place, item] of data.entries()) {
    const index = field(item, "index") ?? place;
    const isPlace = Number.isInteger(index) && Number(index) >= 0 && Number(index) < count;
    if (!isPlace || vectors[Number(index)] !== undefined) {
      throw wrong(wanted, "each index once", String(index).slice(0, 40));
    }
    vectors[Number(index)] = vectorIn(field(item, "embedding"), wanted);
  }
  return vectors.map((vector) => vector ?? new Float32Array());
}

/** A list of numbers, or little-endian float32 in base64. */
function vectorIn(value: unknown, wanted: WantedVectors): Float32Array {
  const vector = typeof value === "string" ? floatsOf(value) : numbersOf(value);
  const length = vector?.length ?? 0;
  const { dimensions } = wanted;
  if (vector === null || length === 0 || length > DIMENSIONS_MAX) {
    throw wrong(wanted, `vectors of 1 to ${DIMENSIONS_MAX} finite numbers`, "others");
  }
  if (dimensions !== null && length !== dimensions) {
    throw wrong(wanted, `vectors of ${dimensions} dimensions`, `${length}`);
  }
  return vector;
}

function numbersOf(value: unknown): Float32Array | null {
  if (!Array.isArray(value)) return null;
  const vector = new Float32Array(value.length);
  for (const [place, number] of value.entries()) {
    if (typeof number !== "number") return null;
    vector[place] = number;
  }
  return vector.every(Number.isFinite) ? vector : null;
}

function floatsOf(base64: string): Float32Array | null {
  const bytes = Buffer.from(base64, "base64");
  if (bytes.length % 4 !== 0) return null;
  const vector = Float32Array.from({ length: bytes.length / 4 }, (_, i) =>
    bytes.readFloatLE(i * 4),
  );
  return vector.every(Number.isFinite) ? vector : null;
}

function wrong({ url }: WantedVectors, must: string, actual: string): EngineError {
  return new EngineError(
    "NETWORK",
    `Cannot use the answer of ${url}: it must have ${must}, current value is ${actual}; check ` +
      "the model's name and the dimensions that were asked for",
  );
}
