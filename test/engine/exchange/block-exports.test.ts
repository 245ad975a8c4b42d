/** Offers that are read in part, or by nothing. */
import { expect, test } from "vitest";
import { SimClock } from "#simulator";
import { decodeAnswer, encodeAsk } from "../../../src/engine/exchange/block-ask.ts";
import { BlockExports } from "../../../src/engine/exchange/block-exports.ts";
import type { ExchangeParts } from "../../../src/engine/exchange/exchange-parts.ts";

const IDENTITY = { fingerprint: "f", blockTokens: 4, bytesPerBlock: 64 };
const ASK = {
  ...{ ...IDENTITY, sharingScope: null, prefix: null, spare: false, cacheSalt: null },
  ...{ tokens: Int32Array.from({ length: 9 }, (_, at) => at), from: 0, blocks: 2 },
  ...{ compute: false, priority: 0, deadlineMs: 600_000 },
};

/** Who asks, and ends when it is told to. */
class Asker {
  isGone = false;
  readonly #waiting = new Set<() => void>();

  onGone(run: () => void): () => void {
    this.#waiting.add(run);
    return () => this.#waiting.delete(run);
  }

  /** How many are told of its end. */
  get listeners(): number {
    return this.#waiting.size;
  }

  end(): void {
    this.isGone = true;
    for (const run of this.#waiting) run();
  }
}

/** An engine of one stage, whose blocks are stored; `offer` is what it offered last. */
function offering(clock: SimClock) {
  const told: string[] = [];
  const offer = { id: "offer", begun: false, ready: () => {}, fail: (_why: string) => {} };
  const ended = new Promise<{ outcome: string }>((resolve) => {
    offer.fail = (why) => {
      told.push(why);
      resolve({ outcome: "failed" });
    };
  });
  const parts = {
    engine: {},
    cache: {
      ...{ match: () => ({ blocks: [1, 2] }), blockTokens: 4, storesTails: false, groupCount: 1 },
      peers: {
        sends: {
          ...{ reach: () => 2, start: () => {}, advance: () => 2 },
          ...{ progress: () => ({ onTheWay: 1, sent: 0 }), end: () => void told.push("released") },
        },
      },
    },
    port: { dataPort: 1, offer: () => Object.assign(offer, { ended }) },
    traffic: { startOutgoing: () => {}, endOutgoing: () => {} },
    ...{ clock, timer: clock, identity: IDENTITY, sharingScope: null, memoryAlone: false },
    ...{ contextTokensMax: 100, vocabularySize: 100, warn: () => {}, stages: null },
    ...{ onWake: () => {}, onServed: () => {} },
  } as unknown as ExchangeParts;
  const requests = { add: () => {}, abort: () => {} };
  return { told, offer, exports: new BlockExports(parts, () => 1, requests) };
}

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
        ...{ id: "offer", begun: true, ready: () => {}, fail: () => {} },
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
  await exports.answer(encodeAsk(ASK), new Asker());
  expect(exports.active).toBe(true);
  clock.run(61_000);
  await new Promise(setImmediate);
  expect(told).toEqual(["nothing of it was read for 30000 ms", "released"]);
  expect(exports.active).toBe(false);
});

test("[TR91] an offer ends some seconds after who asked for it, unless it is read by then", async () => {
  const clock = new SimClock();
  const { told, exports } = offering(clock);
  const asker = new Asker();
  await exports.answer(encodeAsk(ASK), asker);
  clock.run(3000);
  asker.end();
  clock.run(7999);
  expect(told).toEqual([]);
  clock.run(8000);
  await new Promise(setImmediate);
  expect(told).toEqual(["who asked for it has ended", "released"]);
  expect([exports.active, asker.listeners]).toEqual([false, 0]);

  const other = offering(clock);
  const reader = new Asker();
  await other.exports.answer(encodeAsk(ASK), reader);
  other.offer.begun = true;
  reader.end();
  clock.run(28_000);
  await new Promise(setImmediate);
  // Its connection is another one, whose end the port tells.
  expect(other.told).toEqual([]);
});

test("[TR91] an offer that nothing begins to read ends, though who asked is there", async () => {
  const clock = new SimClock();
  const { told, exports } = offering(clock);
  const asker = new Asker();
  await exports.answer(encodeAsk(ASK), asker);
  clock.run(15_000);
  await new Promise(setImmediate);
  expect(told).toEqual(["nothing began to read it in 15000 ms", "released"]);
  expect([exports.active, asker.listeners]).toEqual([false, 0]);
});

test("[TR91] who has ended before it is answered is offered nothing", async () => {
  const { told, exports } = offering(new SimClock());
  const asker = new Asker();
  const bring = async () => asker.end();
  const answer = decodeAnswer(await exports.answer(encodeAsk(ASK), asker, bring));
  expect(answer).toEqual({ error: "Cannot answer: who asked has ended" });
  expect([exports.active, told]).toEqual([false, []]);
});
