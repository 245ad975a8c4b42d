import { expect, test } from "vitest";
import { Channel } from "../../src/engine/caller/channel.ts";
import { LazyStream } from "../../src/engine/caller/lazy-stream.ts";

function lettersFrom(channel: Channel<string>) {
  let opened = 0;
  const stream = new LazyStream(async () => {
    opened += 1;
    return channel;
  });
  return { stream, openedCount: () => opened };
}

test("nothing is opened before the first item is asked for, and then once", async () => {
  const channel = new Channel<string>(() => {});
  for (const letter of "abc") channel.push(letter);
  channel.end();
  const { stream, openedCount } = lettersFrom(channel);
  expect(openedCount()).toBe(0);
  const read: string[] = [];
  for await (const letter of stream) read.push(letter);
  expect(read).toEqual(["a", "b", "c"]);
  expect(openedCount()).toBe(1);
});

test("a reader that leaves leaves the source too", async () => {
  let left = 0;
  const channel = new Channel<string>(() => {
    left += 1;
  });
  channel.push("a");
  for await (const _letter of lettersFrom(channel).stream) break;
  expect(left).toBe(1);
});

test("a reader that left before the first item opens nothing", async () => {
  const { stream, openedCount } = lettersFrom(new Channel<string>(() => {}));
  await stream.return();
  expect(await stream.next()).toEqual({ done: true, value: undefined });
  expect(openedCount()).toBe(0);
});

test("a source that is open only after its reader left is left at once", async () => {
  let left = 0;
  const channel = new Channel<string>(() => {
    left += 1;
  });
  const { stream } = lettersFrom(channel);
  const first = stream.next();
  await stream.return();
  expect(await first).toEqual({ done: true, value: undefined });
  expect(left).toBe(1);
});

test("a source that cannot be opened fails the first read; there is no second item", async () => {
  const stream = new LazyStream<string>(async () => {
    throw new Error("no such source");
  });
  await expect(stream.next()).rejects.toThrow("no such source");
  expect(await stream.next()).toEqual({ done: true, value: undefined });
});
