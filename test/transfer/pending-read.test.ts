import { expect, test } from "vitest";
import { PendingRead } from "../../src/transfer/pending-read.ts";

/** A read of two placed pieces, and what it told in order. */
function reading(signal?: AbortSignal) {
  const told: string[] = [];
  const read = new PendingRead({
    ...{ peer: { host: "127.0.0.1", port: 1 }, offer: "o", deadlineMs: 60_000 },
    pieces: [
      { index: 0, bytes: 8 },
      { index: 1, bytes: 8 },
    ],
    onPiece: (index) => told.push(`piece ${index}`),
    onEnding: () => told.push("ending"),
    ...(signal === undefined ? {} : { signal }),
  });
  read.onStop((quiet, done) => {
    told.push(`stop ${done}`);
    quiet();
  });
  return { read, told };
}

test("[KV83] a read says that it ends before its way is stopped, once: when all has arrived", async () => {
  const { read, told } = reading();
  read.arrived(1);
  read.arrived(0);
  await read.settled;
  read.fail("failed", "too late");
  read.arrived(0);
  expect(told).toEqual(["piece 1", "piece 0", "ending", "stop true"]);
});

test.each(["fails", "is aborted"])("[KV83] and when it %s", async (how) => {
  const abort = new AbortController();
  const { read, told } = reading(abort.signal);
  read.arrived(0);
  if (how === "fails") read.fail("failed", "the connection broke");
  else abort.abort();
  await expect(read.settled).rejects.toMatchObject({
    code: how === "fails" ? "failed" : "aborted",
  });
  abort.abort();
  expect(told).toEqual(["piece 0", "ending", "stop false"]);
});
