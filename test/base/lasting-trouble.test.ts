import { expect, test } from "vitest";
import { LastingTrouble } from "#base";

test("a trouble that comes and goes is told when it begins, and when it has been over for a while", () => {
  let now = 0;
  const trouble = new LastingTrouble({ nowMs: () => now }, 1000);
  expect(trouble.succeeded()).toBe(false);
  expect(trouble.failed()).toBe(true);
  for (let round = 0; round < 50; round++) {
    now += 999;
    expect(trouble.succeeded()).toBe(false);
    expect(trouble.failed()).toBe(false);
  }
  now += 1000;
  expect(trouble.succeeded()).toBe(true);
  expect(trouble.succeeded()).toBe(false);
  expect(trouble.failed()).toBe(true);
});
