/** Blocks that several stages offer, and readers that take only some of their parts. */
import { expect, test } from "vitest";
import { SimClock } from "#simulator";
import { encodeAsk } from "../../../src/engine/exchange/block-ask.ts";
import { BlockExports } from "../../../src/engine/exchange/block-exports.ts";
import type { ExchangeParts } from "../../../src/engine/exchange/exchange-parts.ts";

const IDENTITY = { fingerprint: "f", blockTokens: 4, bytesPerBlock: 64 };
const ASK = {
  ...{ ...IDENTITY, sharingScope: null, prefix: null, spare: false, cacheSalt: null },
  ...{ tokens: Int32Array.from({ length: 9 }, (_, at) => at), from: 0, blocks: 2 },
  ...{ compute: false, priority: 0, deadlineMs: 600_000 },
};

/** An engine of two stages, of which the first has sent all of its part. */
function exporting(clock: SimClock) {
  const told: string[] = [];
  let endOthers = () => {};
  const others = new Promise<void>((resolve) => {
    endOthers = resolve;
  });
  const sends = {
    ...{ reach: () => 2, start: () => {}, advance: () => 2 },
    ...{ progress: () => ({ onTheWay: 1, sent: 1 }), end: () => void told.push("released") },
  };
  const parts = {
    engine: {},
    cache: {
      ...{ match: () => ({ blocks: [1, 2] }), blockTokens: 4, storesTails: false, groupCount: 1 },
      peers: { sends },
    },
    port: {
      ...{ dataPort: 1 },
      offer: () => ({
        ...{ id: "offer", ready: () => {}, fail: () => {} },
        ended: Promise.resolve({ outcome: "sent" }),
      }),
    },
    traffic: { startOutgoing: () => {}, endOutgoing: () => {} },
    ...{ clock, timer: clock, identity: IDENTITY, sharingScope: null, memoryAlone: false },
    ...{ contextTokensMax: 100, vocabularySize: 100, warn: () => {} },
    stages: {
      offer: async () => [{ offer: "other", port: 2, bytes: 32 }],
      endOffer: (_transfer: number, reason: string) => {
        told.push(reason);
        endOthers();
      },
      offersEnded: () => others,
      sent: async () => false,
    },
    ...{ onWake: () => {}, onServed: () => {} },
  } as unknown as ExchangeParts;
  const requests = { add: () => {}, abort: () => {} };
  return { told, exports: new BlockExports(parts, () => 1, requests) };
}

test("[KV71] blocks of several stages are released where only the first one's part is read", async () => {
  const clock = new SimClock();
  const { told, exports } = exporting(clock);
  await exports.answer(encodeAsk(ASK));
  expect(exports.active).toBe(true);
  clock.run(61_000);
  await new Promise(setImmediate);
  expect(told).toEqual(["nothing of it was read for 30000 ms", "released"]);
  expect(exports.active).toBe(false);
});
