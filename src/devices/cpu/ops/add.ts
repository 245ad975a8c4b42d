import { elementCount } from "#tensor";
import type { AddInput } from "../../ops.ts";
import type { CpuContext } from "../context.ts";
import { tensorOf } from "../handles.ts";
import { Params } from "../params.ts";
import { nonlinearityCode } from "./activate.ts";

const params = new Params(5);

/** Calls the kernel with `AddParams` (native/cpu/add.cpp). */
export function add({ kernels, pool }: CpuContext, input: AddInput): void {
  const { count } = input;
  const columns = elementCount(input.x.shape.slice(1));
  const x = tensorOf(input.x, "f32", count, columns);
  const delta = tensorOf(input.delta, "f32", count, columns);
  const kind = nonlinearityCode(input.kind);
  kernels.add(params.fill(pool, x.address, delta.address, count * columns, kind));
}
