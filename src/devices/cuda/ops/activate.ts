import type { ActivateInput, ActivationKind } from "../../ops.ts";
import { type CudaContext, ROW_THREADS } from "../context.ts";
import { activationOf, tensorOf } from "../handles.ts";
import { KernelParams, PACKED_ROWS } from "../kernel-params.ts";

/** Codes of activation functions; the same order as `Nonlinearity` in native/cuda/nonlinear.h. */
const KINDS: readonly ActivationKind[] = ["silu", "gelu", "gelu-tanh", "relu"];

const params = new KernelParams([...PACKED_ROWS, "pointer", "i32", "i32"]);

/** The code that kernels know `kind` by. */
export function nonlinearityCode(kind: ActivationKind): number {
  return KINDS.indexOf(kind);
}

/** Fields of `ActivateParams` in native/cuda/activate.cu. */
export function activate({ kernels, launcher }: CudaContext, input: ActivateInput): void {
  const { count, gated } = input;
  const { columns } = input.out;
  const out = activationOf(input.out, count, columns);
  const x = tensorOf(input.x, "f32", count, gated ? 2 * columns : columns);
  params.fill(...out.params, x.address, nonlinearityCode(input.kind), gated ? 1 : 0);
  launcher.launch(kernels.activate, { grid: [count], threads: ROW_THREADS }, params);
}
