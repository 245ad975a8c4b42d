import { assert } from "#base";
import type { LinearActivateInput } from "../../ops.ts";
import type { CudaContext } from "../context.ts";
import { activationOf, matrixOf, vectorOf } from "../handles.ts";
import { KernelParams, PACKED_ROWS } from "../kernel-params.ts";
import { canStream, STREAM_ROOM, STREAM_SHAPE, streamLaunch } from "../linear-stream.ts";
import { activate, nonlinearityCode } from "./activate.ts";
import { linear } from "./linear.ts";

const params = new KernelParams([
  ...PACKED_ROWS,
  ...PACKED_ROWS,
  ...PACKED_ROWS,
  ...(["pointer"] as const),
  ...STREAM_ROOM,
  ...(["i32", "i32", "i32"] as const),
]);

/**
 * bf16: few rows in one kernel, whose product never leaves the chip. f32 and i8: a linear and its
 * activation, with the same bits as the two ops.
 */
export function linearActivate(context: CudaContext, input: LinearActivateInput): void {
  const { format } = matrixOf(input.weight);
  if (format === "bf16" && canStream(context, input.count)) streamActivated(context, input);
  else activateProduct(context, input);
}

function activateProduct(context: CudaContext, input: LinearActivateInput): void {
  const { count, kind, out, x, weight, bias, gated, scratch } = input;
  linear(context, { count, out: scratch, x, weight, ...(bias !== undefined && { bias }) });
  activate(context, { count, kind, out, x: scratch, gated });
}

/** Fields of `LinearActivateParams` in native/cuda/linear-activate.cu. */
function streamActivated(context: CudaContext, input: LinearActivateInput): void {
  const { count, kind, gated } = input;
  const weight = matrixOf(input.weight);
  const x = activationOf(input.x, count, weight.columns);
  const out = activationOf(input.out, count, gated ? weight.rows / 2 : weight.rows);
  assert(
    x.format === "bf16" && out.format === "bf16",
    `Cannot multiply ${x.format} rows by a matrix of bf16 into rows of ${out.format}`,
  );
  const bias = input.bias === undefined ? null : vectorOf(input.bias, "f32", weight.rows);
  const width = gated ? STREAM_SHAPE.outputs / 2 : STREAM_SHAPE.outputs;
  const { columns } = weight;
  const tiles = Math.ceil(out.columns / width);
  const work = { op: "linear_activate", count, tiles, columns } as const;
  const { kernel, shape, room } = streamLaunch(context, work);
  const flags = [count, nonlinearityCode(kind), gated ? 1 : 0] as const;
  params.fill(...out.params, ...x.params, ...weight.params, bias, ...room, ...flags);
  context.launcher.launch(kernel, shape, params);
}
