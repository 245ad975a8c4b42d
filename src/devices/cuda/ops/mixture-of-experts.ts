import { assert } from "#base";
import { KernelParams, PACKED_ROWS, ROW_THREADS } from "#devices/cuda/kernels";
import {
  activationOf,
  type CudaActivation,
  type CudaMatrix,
  FORMATS,
  matrixOf,
  rowBytes,
  tensorOf,
} from "#devices/cuda/memory";
import type { MixtureOfExpertsInput } from "../../ops.ts";
import { activateRows } from "./activate.ts";
import type { CudaContext } from "./context.ts";
import { LINEAR_SHAPE } from "./linear.ts";

/** `kExpertsMax` of native/cuda/mixture-of-experts.cu. */
const expertsMax = 1024;

/** Threads of the one block that sorts. */
const groupThreads = 1024;
const warp = 32;

/** `kOutputs` and `kThreads` of native/cuda/multiply-experts.cu, and its stages of two tiles. */
const tensorOutputs = 64;
const tensorThreads = 128;
const tensorSharedBytes = 4 * 2 * 64 * 128;

const chooseParams = new KernelParams([
  ...(["pointer", "pointer", "pointer", "i32", "i32", "i32", "i32"] as const),
]);
const groupParams = new KernelParams([
  ...(["pointer", "pointer", "pointer", "pointer", "i32", "i32", "i32"] as const),
]);
const multiplyParams = new KernelParams([
  ...PACKED_ROWS,
  ...PACKED_ROWS,
  ...(["pointer", "pointer", "pointer", "pointer", "i32"] as const),
]);
const sumParams = new KernelParams([
  ...(["pointer", "pointer", "pointer", "pointer", "i32", "i32", "i32"] as const),
]);

/** One layer's experts: X matrices [2F, E] and X matrices [E, F]. */
interface Experts {
  readonly gateUp: readonly CudaMatrix[];
  readonly down: readonly CudaMatrix[];
  /** The first of them: all have the same shape. */
  readonly gateUpShape: CudaMatrix;
  readonly downShape: CudaMatrix;
}

/**
 * Five kernels and an activation; native/cuda/mixture-of-experts.cu describes them. In bf16 the
 * GEMMs are those of native/cuda/multiply-experts.cu.
 */
export function mixtureOfExperts(context: CudaContext, input: MixtureOfExpertsInput): void {
  const { count, expertsPerToken: chosen } = input;
  const experts = checkedExperts(input);
  const x = activationOf(input.x, count, experts.gateUpShape.columns);
  assert(x.format === experts.gateUpShape.format, `Cannot multiply ${x.format} rows by experts`);
  const pairs = count * chosen;
  const { columns, rows: hiddenColumns } = experts.gateUpShape;
  const activatedBytes = pairs * rowBytes(x.format, hiddenColumns / 2);
  const [hidden, activated, products, chosenExperts, routingWeights, starts, places, tokens] =
    context.scratch.take([
      ...([pairs * hiddenColumns * 4, activatedBytes, pairs * columns * 4] as const),
      ...([pairs * 4, pairs * 4, (experts.gateUp.length + 1) * 4, pairs * 4, pairs * 4] as const),
    ]);

  choose(context, input, chosenExperts, routingWeights);
  group(context, input, { experts: chosenExperts, starts, places, tokens });
  const ofExperts = { count: experts.gateUp.length, starts };
  multiply(context, ofExperts, {
    x: x.params,
    weight: experts.gateUpShape,
    matrices: context.tables.of(experts.gateUp, input.gateUp),
    out: hidden,
    tokens,
  });
  const rounded = [activated, FORMATS.indexOf(x.format), hiddenColumns / 2] as const;
  activateRows(context, { out: rounded, x: hidden, kind: input.kind, count: pairs, gated: true });
  multiply(context, ofExperts, {
    x: rounded,
    weight: experts.downShape,
    matrices: context.tables.of(experts.down, input.down),
    out: products,
    tokens: null,
  });
  sum(context, input, { products, routingWeights, places, columns });
}

/** The experts, all of one shape and format. */
function checkedExperts(input: MixtureOfExpertsInput): Experts {
  const gateUp = input.gateUp.map(matrixOf);
  const down = input.down.map(matrixOf);
  const [gateUpShape, downShape] = [gateUp[0], down[0]];
  assert(
    gateUpShape !== undefined && downShape !== undefined && gateUp.length === down.length,
    "Cannot run experts: as many gate-up as down matrices wanted, at least one",
  );
  assert(gateUp.length <= expertsMax, `Cannot run ${gateUp.length} experts: ${expertsMax} fit`);
  const { columns, rows, format } = gateUpShape;
  const alike = (matrix: CudaMatrix, wantedRows: number, wantedColumns: number) =>
    matrix.format === format && matrix.rows === wantedRows && matrix.columns === wantedColumns;
  assert(
    gateUp.every((matrix) => alike(matrix, rows, columns)) &&
      down.every((matrix) => alike(matrix, columns, rows / 2)),
    "Cannot run experts: one format, gate-up [2F, E] and down [E, F] wanted",
  );
  const { expertsPerToken } = input;
  assert(
    expertsPerToken > 0 && expertsPerToken <= gateUp.length,
    `Cannot choose ${expertsPerToken} of ${gateUp.length} experts`,
  );
  return { gateUp, down, gateUpShape, downShape };
}

function choose(
  { kernels, launcher }: CudaContext,
  input: MixtureOfExpertsInput,
  experts: bigint,
  routingWeights: bigint,
): void {
  const { count, expertsPerToken, gateUp, normalize } = input;
  const logits = tensorOf(input.routerLogits, "f32", count, gateUp.length).address;
  const flags = [count, gateUp.length, expertsPerToken, normalize ? 1 : 0] as const;
  chooseParams.fill(logits, experts, routingWeights, ...flags);
  launcher.launch(kernels.choose_experts, { grid: [count], threads: warp }, chooseParams);
}

function group(
  { kernels, launcher }: CudaContext,
  { count, expertsPerToken, gateUp }: MixtureOfExpertsInput,
  to: { experts: bigint; starts: bigint; places: bigint; tokens: bigint },
): void {
  const counts = [count * expertsPerToken, gateUp.length, expertsPerToken] as const;
  groupParams.fill(to.experts, to.starts, to.places, to.tokens, ...counts);
  launcher.launch(kernels.group_experts, { grid: [1], threads: groupThreads }, groupParams);
}

function multiply(
  { kernels, launcher }: CudaContext,
  experts: { readonly count: number; readonly starts: bigint },
  by: {
    readonly x: CudaActivation["params"];
    readonly weight: CudaMatrix;
    readonly matrices: bigint;
    readonly out: bigint;
    readonly tokens: bigint | null;
  },
): void {
  const { x, weight, matrices, out, tokens } = by;
  multiplyParams.fill(...x, ...weight.params, matrices, out, experts.starts, tokens, weight.rows);
  if (weight.format !== "bf16") {
    const { outputs, threads } = LINEAR_SHAPE;
    const grid = [Math.ceil(weight.rows / outputs), experts.count] as const;
    launcher.launch(kernels.multiply_experts, { grid, threads }, multiplyParams);
    return;
  }
  const kernel = kernels.multiply_experts_bf16;
  kernel.allowSharedBytes(tensorSharedBytes);
  const grid = [Math.ceil(weight.rows / tensorOutputs), experts.count] as const;
  const shape = { grid, threads: tensorThreads, sharedBytes: tensorSharedBytes } as const;
  launcher.launch(kernel, shape, multiplyParams);
}

function sum(
  { kernels, launcher }: CudaContext,
  input: MixtureOfExpertsInput,
  from: { products: bigint; routingWeights: bigint; places: bigint; columns: number },
): void {
  const { count, expertsPerToken } = input;
  const { products, routingWeights, places, columns } = from;
  const out = tensorOf(input.out, "f32", count, columns).address;
  const accumulate = input.accumulate === true ? 1 : 0;
  sumParams.fill(out, products, routingWeights, places, columns, expertsPerToken, accumulate);
  launcher.launch(kernels.sum_experts, { grid: [count], threads: ROW_THREADS }, sumParams);
}
