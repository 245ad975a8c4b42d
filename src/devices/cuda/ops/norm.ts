import type { DeviceTensor } from "../../device.ts";
import type { NormInput } from "../../ops.ts";
import { type CudaContext, ROW_THREADS } from "../context.ts";
import { activationOf, asPackedRows, tensorOf, vectorOf } from "../handles.ts";
import { KernelParams, PACKED_ROWS } from "../kernel-params.ts";

const params = new KernelParams([
  ...PACKED_ROWS,
  ...(["pointer", "pointer", "pointer", "pointer", "i32", "f32", "f32"] as const),
]);

/** Fields of `NormParams` in native/cuda/norm.cu. */
export function norm({ kernels, launcher }: CudaContext, input: NormInput): void {
  const { count, weight } = input;
  const columns = weight.shape[0] ?? 1;
  const vector = (handle: DeviceTensor | undefined) =>
    handle === undefined ? null : vectorOf(handle, "f32", columns);
  const out =
    "dtype" in input.out
      ? asPackedRows(tensorOf(input.out, "f32", count, columns))
      : activationOf(input.out, count, columns).params;
  params.fill(
    ...out,
    tensorOf(input.x, "f32", count, columns).address,
    input.delta === undefined ? null : tensorOf(input.delta, "f32", count, columns).address,
    vector(weight),
    vector(input.bias),
    input.kind === "layer" ? 1 : 0,
    input.epsilon,
    input.weightOffset ?? 0,
  );
  launcher.launch(kernels.norm, { grid: [count], threads: ROW_THREADS }, params);
}
