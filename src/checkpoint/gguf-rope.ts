/** Rotary position parameters of a GGUF, in transformers' terms (`rope_parameters`). */
import { EngineError } from "#base";
import type { FileBytes } from "./file-bytes.ts";
import type { GgufHeader } from "./gguf-header.ts";
import { ggufWeight, toF32 } from "./gguf-weights.ts";
import type { JsonObject } from "./json-text.ts";

export interface GgufRope {
  readonly file: FileBytes;
  readonly header: GgufHeader;
  /** The metadata's prefix, e.g. `llama`. */
  readonly architecture: string;
  /** Elements of a head that are rotated. */
  readonly rotaryDim: number;
  readonly headDim: number;
}

/** The content of `rope_parameters`. Throws UNSUPPORTED_MODEL for unknown scalings. */
export function ggufRopeParameters(rope: GgufRope): JsonObject {
  const { metadata } = rope.header;
  const theta = metadata.findNumber(`${rope.architecture}.rope.freq_base`) ?? 10_000;
  const partial = rope.rotaryDim / rope.headDim;
  return {
    rope_theta: rounded(theta),
    ...(partial === 1 ? {} : { partial_rotary_factor: partial }),
    ...(llama3(rope, theta) ?? longRope(rope) ?? scaling(rope)),
  };
}

function scaling(rope: GgufRope): JsonObject {
  const { metadata } = rope.header;
  const prefix = `${rope.architecture}.rope.scaling.`;
  const kind = metadata.findText(`${prefix}type`) ?? "none";
  const factor =
    metadata.findNumber(`${prefix}factor`) ??
    metadata.findNumber(`${rope.architecture}.rope.scale_linear`) ??
    1;
  if (factor === 1 || kind === "none") return { rope_type: "default" };
  if (kind === "linear") return { rope_type: "linear", factor };
  if (kind === "yarn") {
    const original = metadata.getCount(`${prefix}original_context_length`);
    return { rope_type: "yarn", factor, original_max_position_embeddings: original };
  }
  throw unsupported(
    rope,
    `${prefix}type`,
    `none, linear, yarn or longrope, current value is ${kind}`,
  );
}

/** Phi's: a factor for each pair of elements, one set for short and one for long contexts. */
function longRope(rope: GgufRope): JsonObject | null {
  const long = table(rope, "rope_factors_long.weight");
  const short = table(rope, "rope_factors_short.weight");
  if (long === null || short === null) return null;
  const key = `${rope.architecture}.rope.scaling.original_context_length`;
  const attention = rope.header.metadata.findNumber(
    `${rope.architecture}.rope.scaling.attn_factor`,
  );
  return {
    rope_type: "longrope",
    long_factor: [...long].map(rounded),
    short_factor: [...short].map(rounded),
    original_max_position_embeddings: rope.header.metadata.getCount(key),
    ...(attention === null ? {} : { attention_factor: rounded(attention) }),
  };
}

/** All published models with this scaling have these two values. */
const LOW_FREQUENCY_FACTOR = 1;
const HIGH_FREQUENCY_FACTOR = 4;
/** The tables are f32 and made by different programs. */
const TOLERANCE = 1e-4;

/**
 * Llama 3's scaling is stored as its result only, a divisor for each frequency in `rope_freqs`. The
 * largest is the factor; the original context is the power of two that reproduces the table.
 */
function llama3(rope: GgufRope, theta: number): JsonObject | null {
  const divisors = table(rope, "rope_freqs.weight");
  if (divisors === null) return null;
  const factor = Math.max(...divisors);
  if (factor === 1) return null;
  for (let original = 2 ** 20; original >= 16; original /= 2) {
    const wanted = llama3Divisors({ factor, original, theta, rotaryDim: rope.rotaryDim });
    const fits = wanted.every(
      (value, index) => Math.abs(value / (divisors[index] ?? 0) - 1) < TOLERANCE,
    );
    if (!fits || wanted.length !== divisors.length) continue;
    return {
      rope_type: "llama3",
      factor,
      low_freq_factor: LOW_FREQUENCY_FACTOR,
      high_freq_factor: HIGH_FREQUENCY_FACTOR,
      original_max_position_embeddings: original,
    };
  }
  throw unsupported(rope, "rope_freqs.weight", "Llama 3's scaling, current value is another table");
}

interface Llama3Scaling {
  readonly factor: number;
  readonly original: number;
  readonly theta: number;
  readonly rotaryDim: number;
}

/** Low frequencies are divided by the factor, high ones kept, those between interpolated. */
function llama3Divisors({ factor, original, theta, rotaryDim }: Llama3Scaling): number[] {
  return Array.from({ length: rotaryDim / 2 }, (_, pair) => {
    const wavelength = 2 * Math.PI * theta ** ((2 * pair) / rotaryDim);
    if (wavelength < original / HIGH_FREQUENCY_FACTOR) return 1;
    if (wavelength > original / LOW_FREQUENCY_FACTOR) return factor;
    const range = HIGH_FREQUENCY_FACTOR - LOW_FREQUENCY_FACTOR;
    const smooth = (original / wavelength - LOW_FREQUENCY_FACTOR) / range;
    return 1 / ((1 - smooth) / factor + smooth);
  });
}

function table(rope: GgufRope, name: string): Float32Array | null {
  const tensor = rope.header.tensors.get(name);
  if (tensor === undefined) return null;
  // Checked before it is read: a table has one value for each pair of a head's elements.
  if (tensor.shape.length === 1 && tensor.shape[0] === rope.rotaryDim / 2) {
    return toF32(ggufWeight(rope.file, tensor, { name, layout: { kind: "plain" } }));
  }
  throw unsupported(rope, name, `a list of ${rope.rotaryDim / 2}, current value is another shape`);
}

function unsupported(rope: GgufRope, field: string, detail: string): EngineError {
  return new EngineError(
    "UNSUPPORTED_MODEL",
    `Cannot load ${rope.file.path}: ${field} must be ${detail}; use the safetensors checkpoint`,
    { param: field },
  );
}

/** GGUF stores numbers as f32; this is the original decimal (1e-6, not 9.99999997e-7). */
export function rounded(value: number): number {
  return Number(value.toPrecision(7));
}
