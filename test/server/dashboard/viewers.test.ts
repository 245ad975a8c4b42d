import { expect, test } from "vitest";
import { Viewers } from "../../../src/server/dashboard/viewers.ts";
import type { EventStream } from "../../../src/server/event-stream.ts";

/** A stream whose reader takes what it is sent only when told to. */
function slowStream() {
  const sent: string[] = [];
  let cut = 0;
  let take: () => void = () => {};
  let isSlow = true;
  const stream = {
    send: (text: string) => {
      sent.push(text);
      if (!isSlow) return null;
      return new Promise<void>((resolve) => {
        take = resolve;
      });
    },
    cutOff: () => {
      cut++;
    },
    close: () => {},
  } as unknown as EventStream; // what viewers use of one
  return {
    ...{ stream, sent },
    cuts: () => cut,
    takeAll: async () => {
      isSlow = false;
      take();
      await Promise.resolve();
    },
  };
}

test("a slow viewer misses messages: nothing is kept for it but one", async () => {
  const viewers = new Viewers(2);
  const slow = slowStream();
  viewers.add(slow.stream, "now");
  for (let turn = 0; turn < 10; turn++) viewers.send(`${turn}`);
  expect(slow.sent).toEqual(["0"]);
  await slow.takeAll();
  viewers.send("10");
  expect(slow.sent).toEqual(["0", "10"]);
  expect(slow.cuts()).toBe(0);
});

test("a viewer that takes nothing for 20 messages is disconnected", () => {
  const viewers = new Viewers(1);
  const slow = slowStream();
  viewers.add(slow.stream, "now");
  for (let turn = 0; turn < 21; turn++) viewers.send("x");
  expect(slow.cuts()).toBe(0);
  viewers.send("x");
  expect(slow.cuts()).toBe(1);
});

test("messages of a view go to its viewers alone", () => {
  const viewers = new Viewers(4);
  const [now, cache] = [slowStream(), slowStream()];
  viewers.add(now.stream, "now");
  expect(viewers.has("cache")).toBe(false);
  const leave = viewers.add(cache.stream, "cache");
  viewers.send("map", "cache");
  expect([now.sent, cache.sent]).toEqual([[], ["map"]]);
  leave();
  expect(viewers.has("cache")).toBe(false);
  expect(viewers.count).toBe(1);
});

test("no more viewers come than may", () => {
  const viewers = new Viewers(1);
  viewers.checkRoom();
  const leave = viewers.add(slowStream().stream, "now");
  expect(() => viewers.checkRoom()).toThrow(/at most 1 pages may be open, current value is 1/);
  leave();
  viewers.checkRoom();
  expect(() => new Viewers(0).checkRoom()).toThrow(/at most 0 pages may be open/);
});
