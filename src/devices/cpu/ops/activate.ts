import type { ActivateInput, ActivationKind } from "../../ops.ts";
import type { CpuContext } from "../context.ts";
import { activationOf, tensorOf } from "../handles.ts";
import { Params } from "../params.ts";

/** Codes of activation functions; the same order as `Nonlinearity` in native/cpu/nonlinear.h. */
const KINDS: readonly ActivationKind[] = ["silu", "gelu", "gelu-tanh", "relu", "tanh"];

const params = new Params(8);

/** The kernels' code of `kind`; -1 for none. */
export function nonlinearityCode(kind: ActivationKind | undefined): number {
  return kind === undefined ? -1 : KINDS.indexOf(kind);
}

/** Calls the kernel with `ActivateParams` (native/cpu/activate.cpp). */
export function activate({ kernels, pool }: CpuContext, input: ActivateInput): void {
  const { count, gated } = input;
  const { columns } = input.out;
  const out = activationOf(input.out, count, columns);
  kernels.activate(
    params.fill(
      pool,
      out.address,
      out.formatCode,
      tensorOf(input.x, "f32", count, gated ? 2 * columns : columns).address,
      nonlinearityCode(input.kind),
      gated ? 1 : 0,
      count,
      columns,
    ),
  );
}
