import {
  appendFileSync,
  mkdtempSync,
  readFileSync,
  rmSync,
  statSync,
  writeFileSync,
} from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, expect, test } from "vitest";
import { Journal } from "../../../src/rag/http/journal.ts";
import { Dice } from "../../fuzz/dice.ts";

let folder: string;
let path: string;
beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), "perigee-journal-"));
  path = join(folder, "records.jsonl");
});
afterEach(() => rmSync(folder, { recursive: true, force: true }));

/** What a journal at the path has. */
async function reopened(): Promise<Record<string, object>> {
  const journal = await Journal.open(path);
  const values = Object.fromEntries(journal.values);
  await journal.close();
  return values;
}

test("[RG102] what was written is there when the journal is opened again", async () => {
  const journal = await Journal.open(path);
  await journal.write([
    { key: "a", value: { name: "é\n\u2028" } },
    { key: "b", value: { n: 1 } },
  ]);
  await journal.write([{ key: "b", value: null }]);
  await Promise.all([1, 2, 3].map((n) => journal.write([{ key: "c", value: { n } }])));
  await journal.close();
  expect(await reopened()).toEqual({ a: { name: "é\n\u2028" }, c: { n: 3 } });
});

test("[RG102] a journal that was cut off anywhere has all whole lines before it", async () => {
  const journal = await Journal.open(path);
  for (let n = 0; n < 4; n++) await journal.write([{ key: `k${n}`, value: { n } }]);
  await journal.close();
  const whole = readFileSync(path);
  for (let length = 0; length <= whole.length; length++) {
    writeFileSync(path, whole.subarray(0, length));
    const lines = whole.subarray(0, length).toString().split("\n").length - 1;
    const values = await reopened();
    expect(Object.keys(values), `${length} bytes`).toHaveLength(Math.max(0, lines - 1));
    // And it goes on.
    const next = await Journal.open(path);
    await next.write([{ key: "new", value: {} }]);
    await next.close();
    expect(await reopened()).toEqual({ ...values, new: {} });
  }
});

test("[RG102] a line that no server wrote stops the start, with its number", async () => {
  await (await Journal.open(path)).close();
  appendFileSync(path, '["a",{}]\nnonsense\n["b",{}]\n');
  await expect(Journal.open(path)).rejects.toMatchObject({
    ...{ code: "IO", message: expect.stringContaining("line 3") },
  });
  writeFileSync(path, '{"format":"another"}\n');
  await expect(Journal.open(path)).rejects.toMatchObject({ code: "IO" });
});

test.for([1, 2, 3])(
  "[RG102] it grows with what is kept, not with changes (seed %i)",
  async (seed) => {
    const dice = new Dice(seed);
    const journal = await Journal.open(path);
    const expected: Record<string, object> = {};
    let most = 0;
    for (let round = 0; round < 60; round++) {
      const entries = Array.from({ length: 40 }, () => {
        const key = `key ${dice.below(20)}`;
        const value = dice.below(4) === 0 ? null : { text: "x".repeat(dice.below(4000)) };
        if (value === null) delete expected[key];
        else expected[key] = value;
        return { key, value };
      });
      await journal.write(entries);
      most = Math.max(most, statSync(path).size);
    }
    expect(most).toBeLessThan(2 ** 21);
    const live = Object.values(expected).reduce(
      (sum, value) => sum + JSON.stringify(value).length,
      0,
    );
    expect(journal.liveBytes).toBeGreaterThanOrEqual(live);
    expect(journal.liveBytes).toBeLessThan(live + 20 * Object.keys(expected).length);
    await journal.close();
    expect(await reopened()).toEqual(expected);
  },
);
