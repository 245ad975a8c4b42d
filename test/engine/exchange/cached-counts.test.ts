import { expect, test } from "vitest";
import { CachedCounts } from "../../../src/engine/exchange/cached-counts.ts";

test("[KV72] who asks for a count waits until the prompt has run, or ends", async () => {
  const counts = new CachedCounts();
  counts.expect("runs");
  counts.expect("ends");
  const [early, never] = [counts.of("runs"), counts.of("ends")];
  counts.tell("runs", 48);
  counts.end("ends");
  expect(await Promise.all([early, never])).toEqual([48, null]);
  // Its reader may ask late, and others for what was never offered.
  expect(await Promise.all(["runs", "ends", "?"].map((offer) => counts.of(offer)))).toEqual([
    48,
    null,
    null,
  ]);
});

test("[KV72] a reader that asks again and again keeps few questions", async () => {
  const counts = new CachedCounts();
  counts.expect("one");
  const asked = Array.from({ length: 100 }, () => counts.of("one"));
  counts.tell("one", 16);
  const answers = await Promise.all(asked);
  expect(answers.slice(0, 8)).toEqual(Array(8).fill(16));
  expect(answers.slice(8)).toEqual(Array(92).fill(null));
});
