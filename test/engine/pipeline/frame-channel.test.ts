import { duplexPair, PassThrough } from "node:stream";
import { expect, test } from "vitest";
import { FrameChannel } from "../../../src/engine/pipeline/frame-channel.ts";

test("[PP10] messages arrive whole and in order, however the stream cuts them", async () => {
  const [one, other] = duplexPair({ highWaterMark: 100 });
  const messages = Array.from({ length: 50 }, (_, index) => ({
    index,
    values: Float32Array.from({ length: index * 37 }, (_, place) => place + index),
    ids: Int32Array.of(index, -index),
    nothing: null,
  }));
  const from = new FrameChannel<unknown, unknown>(one);
  const to = new FrameChannel<unknown, unknown>(other);
  const got: unknown[] = [];
  const ended = new Promise<string>((resolve) => {
    to.listen({ onMessage: (message) => got.push(message), onEnd: resolve });
  });
  for (const message of messages) from.send(message);
  from.close();
  await ended;
  expect(got).toEqual(messages);
});

test("[PP10] bytes that are no message end the channel, once", () => {
  const stream = new PassThrough();
  const channel = new FrameChannel<unknown, unknown>(stream);
  const ends: string[] = [];
  channel.listen({ onMessage: () => {}, onEnd: (reason) => ends.push(reason) });
  stream.emit("data", Buffer.from([255, 255, 255, 255, 0]));
  stream.emit("close");
  expect(ends).toEqual(["it sent a message of 4294967295 bytes"]);
});
