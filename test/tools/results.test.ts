import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { expect, test } from "vitest";

const folder = "bench/results";
const files = readdirSync(folder).filter((file) => file.endsWith(".json"));
/** Counts that no machine changes: of accepted tokens, of cached blocks. */
const OF_ANY_MACHINE = ["drafter-acceptance.json", "replay-conversation.json"];

test.for(files)("%s says what repeats it, on which machine it was measured, and when", (file) => {
  const text = readFileSync(join(folder, file), "utf8");
  expect(text).toMatch(/"commands?":/);
  if (OF_ANY_MACHINE.includes(file)) return;
  expect(text).toMatch(/"(?:machine|device)":/);
  expect(text).toMatch(/20\d\d-\d\d-\d\d/);
});
