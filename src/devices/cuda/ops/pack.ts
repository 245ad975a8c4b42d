import { KernelParams, PACKED_ROWS, ROW_THREADS } from "#devices/cuda/kernels";
import {
  CudaMatrix,
  type CudaMemory,
  type CudaTensor,
  elementCode,
  rowBytes,
  type Staging,
} from "#devices/cuda/memory";
import type { FileUploads } from "#devices/cuda/weights";
import { bytesOf, elementCount, formatShape } from "#tensor";
import type { PackOptions, RandomElements, WeightSource } from "../../device.ts";
import { checkedBytes, extentsOf, stackedExtents } from "../../weight-source.ts";
import { type CudaContext, elementGrid } from "./context.ts";

/** Context of packing besides the weights. */
export interface PackContext {
  readonly context: CudaContext;
  readonly memory: CudaMemory;
  readonly staging: Staging;
  readonly files: FileUploads;
  /** Device memory where a part of a file waits for its kernel. */
  readonly landing: { readonly address: bigint; readonly bytes: number };
}

/** Position of a source's rows inside the whole matrix. */
interface Target {
  readonly rows: CudaMatrix;
  readonly firstRow: number;
  readonly transposed: boolean;
  /** Elements of a row of the source. */
  readonly sourceColumns: number;
}

/** `Placement` in native/cuda/pack.cu. */
const placement = [...PACKED_ROWS, "i32", "i32", "i32"] as const;
const elementParams = new KernelParams([...placement, "pointer", "i64", "i64", "i32"]);
const randomParams = new KernelParams([...placement, "i64", "i32", "i32", "f32"]);
const rowParams = new KernelParams([...PACKED_ROWS, "pointer", "i32"]);

/**
 * Packs matrices stacked by rows into one. A file's bytes are uploaded unchanged, and a kernel
 * converts each part to the format while the next one is being uploaded.
 */
export function packMatrix(
  pack: PackContext,
  sources: readonly WeightSource[],
  options: PackOptions,
): CudaMatrix {
  const transposed = options.transposed === true;
  const { rows, columns } = stackedExtents(sources, transposed);
  const names = sources.map((source) => source.name).join(", ");
  const what = `${names} ${formatShape([rows, columns])}`;
  const bytes = rows * rowBytes(options.format, columns);
  const matrix = new CudaMatrix(options.format, rows, columns, pack.memory.allocate(bytes, what));
  // A linear reads the end of a row in whole loads: the padding after the last column must be 0.
  if (matrix.rowBytes > columns * 2 && options.format === "bf16")
    pack.memory.fill(matrix.address, bytes, 0);

  let firstRow = 0;
  for (const source of sources) {
    const [, sourceColumns = 1] = source.shape;
    packSource(pack, source, { rows: matrix, firstRow, transposed, sourceColumns });
    source.discard();
    firstRow += extentsOf(source, transposed).rows;
  }
  return matrix;
}

/** Loads any source as f32 numbers into `tensor`, which has as many elements. */
export function loadTensor(pack: PackContext, source: WeightSource, tensor: CudaTensor): void {
  const rows = new CudaMatrix("f32", 1, tensor.rows * tensor.columns, tensor.address);
  store(pack, source, { rows, firstRow: 0, transposed: false, sourceColumns: rows.columns });
  source.discard();
}

function packSource(pack: PackContext, source: WeightSource, target: Target): void {
  if (target.rows.format !== "i8") {
    store(pack, source, target);
    return;
  }
  // Scales need whole rows: the numbers are stored as f32 first.
  const { rows: count, columns } = extentsOf(source, target.transposed);
  const bytes = count * rowBytes("f32", columns);
  const address = pack.memory.allocate(bytes, `${source.name} as f32, while it is packed`);
  const aside = new CudaMatrix("f32", count, columns, address);
  store(pack, source, { ...target, rows: aside, firstRow: 0 });
  const { kernels, launcher } = pack.context;
  rowParams.fill(...target.rows.params, address, target.firstRow);
  launcher.launch(kernels.pack_rows, { grid: [count], threads: ROW_THREADS }, rowParams);
  pack.memory.release(address);
}

/** Converts a source's elements to f32 or bf16 rows. */
function store(pack: PackContext, source: WeightSource, target: Target): void {
  if (source.random === undefined) storeElements(pack, source, target);
  else makeElements(pack, source, source.random, target);
}

/**
 * Uploads elements: to their place where the file has them in the matrix's layout, else part by
 * part, and a kernel packs each (`PackElementsParams`, native/cuda/pack.cu).
 */
function storeElements(pack: PackContext, source: WeightSource, target: Target): void {
  const { context, landing } = pack;
  const upload = uploadOf(pack, source);
  const size = bytesOf(source.dtype);
  const count = elementCount(source.shape);
  const place = placeAsStored(source, target);
  if (place !== null) {
    upload(place, 0, count * size);
    return;
  }
  const partMax = Math.floor(landing.bytes / size);
  const { kernels, launcher } = context;
  for (let first = 0; first < count; first += partMax) {
    const part = Math.min(partMax, count - first);
    // In stream order: the next upload arrives when the kernel before it has read the last one.
    upload(landing.address, first * size, part * size);
    const element = elementCode(source.dtype);
    elementParams.fill(...placementOf(target), landing.address, first, part, element);
    const shape = { grid: elementGrid(context, part), threads: ROW_THREADS };
    launcher.launch(kernels.pack_elements, shape, elementParams);
  }
}

/** Copies a part of a source's bytes to the device, by the faster of two ways. */
function uploadOf(
  { staging, files }: PackContext,
  source: WeightSource,
): (to: bigint, start: number, bytes: number) => void {
  const { file } = source;
  const total = elementCount(source.shape) * bytesOf(source.dtype);
  if (file !== undefined && files.suits(total)) {
    const { path } = file;
    return (to, start, bytes) => files.upload(to, { path, start: file.start + start, bytes });
  }
  const all = checkedBytes(source);
  return (to, start, bytes) => staging.upload(to, all.subarray(start, start + bytes));
}

/** Address for a source's bytes that need no kernel; null: their format or order changes. */
function placeAsStored({ dtype }: WeightSource, target: Target): bigint | null {
  const { rows, firstRow, transposed, sourceColumns } = target;
  const isSame = dtype === rows.format && rows.rowBytes === sourceColumns * bytesOf(dtype);
  return isSame && !transposed ? rows.address + BigInt(firstRow * rows.rowBytes) : null;
}

/** Four elements per thread. */
const randomLanes = 4;

/** Makes elements by a kernel (`PackRandomParams`, native/cuda/pack.cu): nothing is uploaded. */
function makeElements(
  { context }: PackContext,
  { shape }: WeightSource,
  { seed, range }: RandomElements,
  target: Target,
): void {
  const count = elementCount(shape);
  randomParams.fill(...placementOf(target), count, seed.low, seed.high, range);
  const grid = elementGrid(context, Math.ceil(count / randomLanes));
  context.launcher.launch(
    context.kernels.pack_random,
    { grid, threads: ROW_THREADS },
    randomParams,
  );
}

/** Fields of `Placement` in native/cuda/pack.cu. */
function placementOf({ rows, sourceColumns, transposed, firstRow }: Target) {
  return [...rows.params, sourceColumns, transposed ? 1 : 0, firstRow] as const;
}
