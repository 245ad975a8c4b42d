import { assert } from "#base";
import type { LinearInput } from "../../ops.ts";
import type { CpuContext } from "../context.ts";
import { activationOf, matrixOf, tensorOf, vectorOf } from "../handles.ts";
import { Params } from "../params.ts";

const params = new Params(10);

/** Calls the kernel with `LinearParams` (native/cpu/linear.cpp). */
export function linear({ kernels, pool }: CpuContext, input: LinearInput): void {
  const { count } = input;
  const weight = matrixOf(input.weight);
  const x = activationOf(input.x, count, weight.columns);
  assert(
    x.format === weight.format,
    `Cannot multiply ${x.format} rows by a matrix of ${weight.format}`,
  );
  const out = tensorOf(input.out, "f32", count, weight.rows);
  const bias = input.bias === undefined ? null : vectorOf(input.bias, "f32", weight.rows);
  const accumulate = input.accumulate === true ? 1 : 0;
  kernels.linear(
    params.fill(
      pool,
      out.address,
      x.address,
      weight.address,
      bias,
      weight.formatCode,
      count,
      weight.rows,
      weight.columns,
      accumulate,
    ),
  );
}
