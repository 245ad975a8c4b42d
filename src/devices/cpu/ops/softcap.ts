import { elementCount } from "#tensor";
import type { SoftcapInput } from "../../ops.ts";
import type { CpuContext } from "../context.ts";
import { tensorOf } from "../handles.ts";
import { Params } from "../params.ts";

const params = new Params(4);

/** Calls the kernel with `SoftcapParams` (native/cpu/softcap.cpp). */
export function softcap({ kernels, pool }: CpuContext, input: SoftcapInput): void {
  const { count, cap } = input;
  const columns = elementCount(input.x.shape.slice(1));
  const x = tensorOf(input.x, "f32", count, columns);
  kernels.softcap(params.fill(pool, x.address, count * columns, cap));
}
