import { at } from "#tensor";
import type { ActivateInput, ActivationKind } from "../ops.ts";
import { f32Rows, rowSink } from "./host-tensor.ts";

/** out = act(x), or with a gate: out[i] = act(x[i]) * x[F + i]. */
export function activate(input: ActivateInput): void {
  const x = f32Rows(input.x);
  const out = rowSink(input.out);
  for (let t = 0; t < input.count; t++) {
    out.store(t, activateRow(input.kind, x.row(t), input.gated));
  }
}

/** [F] from [F], or with `gated` from [2F]. */
export function activateRow(kind: ActivationKind, row: Float32Array, gated: boolean): Float32Array {
  const activation = activations[kind];
  if (!gated) return row.map((value) => activation(value));
  const size = row.length / 2;
  return row.subarray(0, size).map((gate, i) => activation(gate) * at(row, size + i));
}

/** Hendrycks and Gimpel 2016, "Gaussian error linear units"; SiLU is their x * sigmoid(x). */
const activations: Readonly<Record<ActivationKind, (x: number) => number>> = {
  silu: (x) => x / (1 + Math.exp(-x)),
  gelu: (x) => 0.5 * x * (1 + erf(x / Math.SQRT2)),
  "gelu-tanh": (x) => 0.5 * x * (1 + Math.tanh(Math.sqrt(2 / Math.PI) * (x + 0.044715 * x ** 3))),
  relu: (x) => Math.max(x, 0),
  tanh: (x) => Math.tanh(x),
};

/** Beyond this the error function is 1 in f64. */
const erfSaturates = 6;

/**
 * The error function by its series without alternating signs, so that nothing cancels:
 * erf(x) = 2 / sqrt(pi) * exp(-x^2) * sum over n of 2^n * x^(2n + 1) / (1 * 3 * ... * (2n + 1)).
 */
function erf(x: number): number {
  if (Math.abs(x) > erfSaturates) return Math.sign(x);
  let term = x;
  let sum = x;
  for (let n = 1; Math.abs(term) > 1e-17 * Math.abs(sum); n++) {
    term *= (2 * x * x) / (2 * n + 1);
    sum += term;
  }
  return (2 / Math.sqrt(Math.PI)) * Math.exp(-x * x) * sum;
}
