/**
 * V8's flags of a process that runs `words` of the command line; V8 prints an error for a flag
 * that it does not have, so they go by its version.
 *
 * A router has two. V8 makes the heap of a process small when it seems to be idle, three times in
 * a row or, since version 12, twice, and a router with few requests a second seems so between any
 * two of them; each time takes some 70 ms of processor time on all threads, and once is enough. V8
 * also puts what one place of the code allocates into the old generation at once if what that
 * place made before was still used at a collection: here these are parts of requests that were
 * being answered. They are garbage soon, but until a full collection they keep the new objects
 * alive that they refer to: 3 KB a request instead of 20, and a chat of 1,000 tokens takes 0.32 ms
 * instead of 0.39 (`bench/cluster/router-cost.mjs`).
 */
export function v8Flags(words: readonly string[], v8Version: string): readonly string[] {
  // Words before the command are flags and their values: a `route` among these costs nothing.
  if (!words.includes("route")) return [];
  const isBefore12 = Number.parseInt(v8Version, 10) < 12;
  return [
    isBefore12 ? "--memory-reducer-single-gc" : "--memory-reducer-gc-count=1",
    "--no-allocation-site-pretenuring",
  ];
}
