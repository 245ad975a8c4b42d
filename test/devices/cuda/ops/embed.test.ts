/** Rows of a table on the emulated GPU: quads, rows longer than a block has at once, and ids of none. */
import { test } from "vitest";
import type { WeightFormat } from "#devices";
import { RandomNumbers } from "../../../contracts/device-ops/random.ts";
import { describeEmulated, openPair } from "../describe-emulated.ts";

const formats: readonly WeightFormat[] = ["f32", "bf16", "i8"];
const tableRows = 20;

describeEmulated("rows of a table, emulated", openPair, (pair) => {
  const cases = formats.flatMap((format) =>
    [3, 4, 132, 1026, 4096, 5004].map((columns) => ({ format, columns })),
  );
  test.for(cases)("embed: $columns columns of $format", async ({ format, columns }) => {
    const random = new RandomNumbers(columns);
    const data = random.floats(tableRows * columns);
    const table = pair.make((device) =>
      device.pack(
        [
          {
            ...{ name: "table", dtype: "f32", shape: [tableRows, columns] },
            bytes: () => new Uint8Array(data.buffer),
            discard() {},
          },
        ],
        { format },
      ),
    );
    const ids = pair.i32([0, 19, 7, 7, 3]);
    const before = random.floats(5 * columns);
    for (const accumulate of [false, true]) {
      const out = pair.f32([5, columns], before);
      pair.run((device, pick) => {
        const input = { count: 5, out: pick(out), ids: pick(ids), table: pick(table) };
        device.embed({ ...input, scale: 1.5, accumulate });
      });
      await pair.expectClose(out, { absolute: 1e-6, relative: 1e-6 });
    }
  });
});
