import type { KvFormat } from "#devices";
import type { Tolerance } from "./pair.ts";

/**
 * How far attention may be from its definition, by KV format: scores and sums over D and over some
 * hundred positions in f32, the definition in f64. A device may round queries and weights to bf16
 * where keys and values are, as the processor's own products of bf16 want; that is 2^-9 of each
 * factor.
 */
export const attentionRounding: Readonly<Record<KvFormat, Tolerance>> = {
  f32: { absolute: 5e-6, relative: 1e-5 },
  f16: { absolute: 5e-6, relative: 1e-5 },
  bf16: { absolute: 1e-2, relative: 2 ** -7 },
  i8: { absolute: 5e-4, relative: 1e-4 },
  fp8: { absolute: 5e-6, relative: 1e-5 },
};
