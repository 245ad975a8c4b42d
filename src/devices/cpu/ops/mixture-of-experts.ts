import { assert } from "#base";
import type { WeightMatrix } from "../../device-data.ts";
import type { MixtureOfExpertsInput } from "../../ops.ts";
import type { CpuContext } from "../context.ts";
import { activationOf, type CpuMatrix, matrixOf, tensorOf } from "../handles.ts";
import { Params } from "../params.ts";
import { nonlinearityCode } from "./activate.ts";

/** Fields before the matrices. */
const FIELDS = 13;

/** Params by layer (its list of gate-up matrices), so that a step allocates none. */
const paramsOf = new WeakMap<readonly WeightMatrix[], Params>();

/** Calls the kernel with `MixtureParams` (native/cpu/mixture-of-experts.cpp). */
export function mixtureOfExperts(
  { kernels, pool }: CpuContext,
  input: MixtureOfExpertsInput,
): void {
  const { count } = input;
  const gateUp = input.gateUp.map(matrixOf);
  const down = input.down.map(matrixOf);
  const { columns, hiddenColumns, formatCode } = checkExperts(gateUp, down);
  const x = activationOf(input.x, count, columns);
  assert(x.formatCode === formatCode, `Cannot multiply ${x.format} rows by experts`);
  assert(
    input.expertsPerToken > 0 && input.expertsPerToken <= gateUp.length,
    `Cannot choose ${input.expertsPerToken} of ${gateUp.length} experts`,
  );
  kernels.mixture_of_experts(
    reusedParams(input.gateUp).fill(
      pool,
      tensorOf(input.out, "f32", count, columns).address,
      x.address,
      tensorOf(input.routerLogits, "f32", count, gateUp.length).address,
      formatCode,
      count,
      columns,
      hiddenColumns,
      gateUp.length,
      input.expertsPerToken,
      input.normalize ? 1 : 0,
      nonlinearityCode(input.kind),
      input.accumulate === true ? 1 : 0,
      ...gateUp.map((matrix) => matrix.address),
      ...down.map((matrix) => matrix.address),
    ),
  );
}

/** The extents that all experts share. */
function checkExperts(gateUp: readonly CpuMatrix[], down: readonly CpuMatrix[]) {
  const first = gateUp[0];
  assert(
    first !== undefined && gateUp.length === down.length,
    "Cannot run experts: as many gate-up as down matrices wanted, at least one",
  );
  const { columns, rows, formatCode } = first;
  const alike = (matrix: CpuMatrix, wantedRows: number, wantedColumns: number) =>
    matrix.formatCode === formatCode &&
    matrix.rows === wantedRows &&
    matrix.columns === wantedColumns;
  assert(
    gateUp.every((matrix) => alike(matrix, rows, columns)) &&
      down.every((matrix) => alike(matrix, columns, rows / 2)),
    "Cannot run experts: one format, gate-up [2F, E] and down [E, F] wanted",
  );
  return { columns, hiddenColumns: rows / 2, formatCode };
}

function reusedParams(gateUp: readonly WeightMatrix[]): Params {
  const known = paramsOf.get(gateUp);
  if (known !== undefined) return known;
  const params = new Params(FIELDS + 2 * gateUp.length);
  paramsOf.set(gateUp, params);
  return params;
}
