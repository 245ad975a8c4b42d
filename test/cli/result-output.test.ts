import { expect, test } from "vitest";
import { InOrder } from "../../src/cli/result-output.ts";

test("each text is passed on as soon as all before it have come", () => {
  const written: string[] = [];
  const lines = new InOrder((text) => written.push(text));
  lines.add(1, "b");
  expect(written).toEqual([]);
  lines.add(0, "a");
  expect(written).toEqual(["a", "b"]);
  lines.add(2, "");
  lines.add(3, "d");
  expect(written).toEqual(["a", "b", "", "d"]);
});

test("at the end, what waits for others is passed on in its order", () => {
  const written: string[] = [];
  const lines = new InOrder((text) => written.push(text));
  for (const place of [11, 2, 7]) lines.add(place, String(place));
  lines.flush();
  lines.flush();
  expect(written).toEqual(["2", "7", "11"]);
});
