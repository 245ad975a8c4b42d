import type { DeviceTensor } from "../../device-data.ts";
import type { NormInput } from "../../ops.ts";
import type { CpuContext } from "../context.ts";
import { activationOf, CpuActivation, formatCode, tensorOf, vectorOf } from "../handles.ts";
import { Params } from "../params.ts";

const params = new Params(12);

/** Calls the kernel with `NormParams` (native/cpu/norm.cpp). */
export function norm({ kernels, pool }: CpuContext, input: NormInput): void {
  const { count, weight } = input;
  const columns = weight.shape[0] ?? 1;
  const vector = (handle: DeviceTensor | undefined) =>
    handle === undefined ? null : vectorOf(handle, "f32", columns);
  const out =
    "dtype" in input.out
      ? tensorOf(input.out, "f32", count, columns)
      : activationOf(input.out, count, columns);
  kernels.norm(
    params.fill(
      pool,
      out.address,
      out instanceof CpuActivation ? out.formatCode : formatCode("f32"),
      tensorOf(input.x, "f32", count, columns).address,
      input.delta === undefined ? null : tensorOf(input.delta, "f32", count, columns).address,
      vector(weight),
      vector(input.bias),
      input.kind === "layer" ? 1 : 0,
      count,
      columns,
      input.epsilon,
      input.weightOffset ?? 0,
    ),
  );
}
