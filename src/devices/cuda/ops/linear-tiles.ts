/** Linears of tens to hundreds of rows of bf16 on native/cuda/linear-tiles.h. */
import type { ActivateInput } from "../../ops.ts";
import type { CudaContext } from "../context.ts";
import type { CudaActivation, CudaMatrix } from "../handles.ts";
import { KernelParams, PACKED_ROWS } from "../kernel-params.ts";
import { TILE_WORK, tilesLaunch } from "../linear-tiles.ts";
import { nonlinearityCode } from "./activate.ts";

/** The driver reads all of a struct that ends at a multiple of 64 bytes: hence the tails. */
const params = new KernelParams(
  [
    ...TILE_WORK,
    ...PACKED_ROWS,
    ...PACKED_ROWS,
    ...(["pointer", "pointer", "i32", "i32", "i32"] as const),
  ],
  16,
);
const activateParams = new KernelParams(
  [...TILE_WORK, ...PACKED_ROWS, ...(["pointer", "i32", "i32"] as const)],
  16,
);

/** Rows of bf16 and what they are multiplied by, checked; `canTile` was asked. */
export interface LinearTilesOperands {
  readonly count: number;
  readonly x: CudaActivation;
  readonly weight: CudaMatrix;
  /** [T, N] f32. */
  readonly out: bigint;
  /** [N] f32. */
  readonly bias: bigint | null;
  readonly accumulate: boolean;
}

/** Fields of `LinearTilesParams` in native/cuda/linear-tiles.cu. */
export function linearTiles(context: CudaContext, operands: LinearTilesOperands): void {
  const { count, x, weight, out, bias, accumulate } = operands;
  const launch = tilesLaunch(context, { op: "linear_tiles", count, x, weight });
  const flags = [count, weight.rows, accumulate ? 1 : 0] as const;
  params.fill(...launch.work, ...x.params, ...weight.params, out, bias, ...flags);
  context.launcher.launch(launch.kernel, launch.shape, params);
}

/** The same with a gate; `canTileGated` was asked. */
export interface ActivateTilesOperands {
  readonly count: number;
  readonly kind: ActivateInput["kind"];
  readonly x: CudaActivation;
  /** [2F, K]. */
  readonly weight: CudaMatrix;
  /** [T, F] bf16. */
  readonly out: CudaActivation;
  /** [2F] f32. */
  readonly bias: bigint | null;
}

/** Fields of `LinearTilesActivateParams` in native/cuda/linear-tiles-activate.cu. */
export function activateTiles(context: CudaContext, operands: ActivateTilesOperands): void {
  const { count, kind, x, weight, out, bias } = operands;
  const launch = tilesLaunch(context, { op: "linear_tiles_activate", count, x, weight });
  activateParams.fill(...launch.work, ...out.params, bias, count, nonlinearityCode(kind));
  context.launcher.launch(launch.kernel, launch.shape, activateParams);
}
