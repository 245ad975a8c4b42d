import { assert } from "#base";
import { formatShape } from "#tensor";
import type { PackOptions, WeightSource } from "../device.ts";
import { CpuMatrix, elementCode, formatCode } from "./handles.ts";
import { packBlocks } from "./pack-blocks.ts";
import { checkedBytes, extentsOf, type PackContext } from "./pack-source.ts";
import { Params } from "./params.ts";

/**
 * Packs matrices stacked by rows into one. Sources are read one after the other and their pages
 * released at once, so the peak is the packed matrix and one source.
 */
export function packMatrix(
  { library, memory, pool }: PackContext,
  sources: readonly WeightSource[],
  options: PackOptions,
): CpuMatrix {
  const transposed = options.transposed === true;
  const extents = sources.map((source) => extentsOf(source, transposed));
  const columns = extents[0]?.columns ?? 0;
  const names = sources.map((source) => source.name).join(", ");
  assert(
    extents.every((each) => each.columns === columns),
    `Cannot stack ${names}: equal columns wanted`,
  );
  const rows = extents.reduce((sum, each) => sum + each.rows, 0);
  if (options.format === "q8") {
    return packBlocks({ library, memory, pool }, sources, { rows, columns, transposed });
  }
  const format = formatCode(options.format);
  const bytes = library.matrixBytes(format, rows, columns);
  const address = memory.allocate(bytes, `${names} ${formatShape([rows, columns])}`);

  const params = new Params(9);
  let firstRow = 0;
  sources.forEach((source, index) => {
    const sourceRows = extents[index]?.rows ?? 0;
    library.pack(
      params.fill(
        pool,
        address,
        format,
        columns,
        firstRow,
        sourceRows,
        elementCode(source.dtype),
        transposed ? 1 : 0,
        rows,
      ),
      checkedBytes(source),
    );
    source.discard();
    firstRow += sourceRows;
  });
  return new CpuMatrix(options.format, rows, columns, bytes, address);
}
