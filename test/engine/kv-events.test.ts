import { afterAll, beforeAll, describe, expect, test } from "vitest";
import type { Timer } from "#base";
import { EngineError } from "#base";
import { isLost, KvMirror, LLM } from "#engine";
import { KvEventLog } from "#kvcache";
import { EngineClient } from "../../src/engine/caller/engine-client.ts";
import { KvEvents } from "../../src/engine/caller/kv-events.ts";
import type { FromEngine, ToEngine } from "../../src/engine/protocol/protocol.ts";
import { engineDeath } from "../../src/engine/protocol/wire-error.ts";
import { removed, stored } from "../support/kv-events.ts";

/** A source whose time stands still until the test moves it. */
class StillSource {
  readonly log = new KvEventLog();
  readonly delays: number[] = [];
  /** Ends the wait that began last. */
  expire: () => void = () => {};
  cancelled = 0;
  readonly events: KvEvents;

  constructor() {
    const timer: Timer = {
      after: (ms, run) => {
        this.delays.push(ms);
        this.expire = run;
        return () => this.cancelled++;
      },
    };
    this.events = new KvEvents({
      log: this.log,
      enabled: true,
      hashAlgorithm: "sha256_cbor",
      streamId: "0",
      takeSnapshot: async () => ({ nextId: 0, blocksPerLevel: [], blocks: [] }),
      timer,
    });
  }

  append(): void {
    this.log.append([{ id: this.log.nextId, event: removed(1n) }]);
  }
}

describe("waiting for events", () => {
  test("0 ms takes what is there and never waits", async () => {
    const { events, delays } = new StillSource();
    expect(await events.getLatestEvents(0)).toEqual([]);
    expect(delays).toEqual([]);
  });

  test("a time-out ends with nothing, an event before it ends the timer (T 43)", async () => {
    const source = new StillSource();
    const late = source.events.getLatestEvents(1000);
    source.expire();
    expect(await late).toEqual([]);
    const early = source.events.getLatestEvents(1000);
    source.append();
    expect(await early).toHaveLength(1);
    expect(source.delays).toEqual([1000, 1000]);
    expect(source.cancelled).toBe(2);
  });

  test("without a time-out it waits until there is an event", async () => {
    const source = new StillSource();
    const waiting = source.events.getLatestEvents();
    source.append();
    expect(await waiting).toHaveLength(1);
    expect(source.delays).toEqual([]);
  });

  test("a signal ends it with nothing, and nothing is taken away", async () => {
    const source = new StillSource();
    const stop = new AbortController();
    const waiting = source.events.getLatestEvents(undefined, stop.signal);
    stop.abort();
    expect(await waiting).toEqual([]);
    source.append();
    expect(await source.events.getLatestEvents(0)).toHaveLength(1);
  });

  test.each([-1, Number.NaN])("%d ms are refused", async (timeoutMs) => {
    const { events } = new StillSource();
    await expect(events.getLatestEvents(timeoutMs)).rejects.toThrow(
      `timeoutMs must be at least 0, current value is ${timeoutMs}`,
    );
  });
});

/** A client whose engine is the test. */
function scriptedClient() {
  const posted: ToEngine[] = [];
  let say: (message: FromEngine) => void = () => {};
  let keptAlive = true;
  const client = new EngineClient(
    (onMessage) => {
      say = onMessage;
      return {
        post: (message) => posted.push(message),
        keepAlive: (wanted) => {
          keptAlive = wanted;
        },
        close: async () => {},
      };
    },
    () => {},
  );
  return { client, posted, say: (message: FromEngine) => say(message), alive: () => keptAlive };
}

describe("between the threads", () => {
  const snapshot = { nextId: 1, blocksPerLevel: [8], blocks: [] };

  test("events arrive in the log, and a snapshot at the client that asked for it", async () => {
    const { client, posted, say, alive } = scriptedClient();
    say({ type: "kvEvents", events: [{ id: 0, event: stored(null, 1n) }] });
    expect(client.kvEvents.nextId).toBe(1);
    const answer = client.kvSnapshot();
    expect(alive()).toBe(true);
    expect(posted).toEqual([{ type: "kvSnapshot", key: 1 }]);
    say({ type: "kvSnapshot", key: 1, snapshot });
    expect(await answer).toEqual(snapshot);
    expect(alive()).toBe(false);
  });

  test("a cache that tells nothing refuses a snapshot", async () => {
    const { client, say } = scriptedClient();
    const answer = client.kvSnapshot();
    const error = { code: "INVALID_ARGUMENT", message: "Cannot take it", param: null } as const;
    say({ type: "refused", key: 1, error });
    await expect(answer).rejects.toThrow("Cannot take it");
  });

  test("the engine's end ends readers and fails snapshots", async () => {
    const { client, say } = scriptedClient();
    const reader = client.kvEvents.read();
    const next = reader.next();
    const answer = client.kvSnapshot();
    say({ type: "dead", error: engineDeath("it crashed") });
    await expect(answer).rejects.toThrow(EngineError);
    expect((await next).done).toBe(true);
    await expect(client.kvSnapshot()).rejects.toMatchObject({ code: "ENGINE_DEAD" });
  });
});

describe("a loaded model", () => {
  const greedy = { temperature: 0, maxTokens: 24 };
  let llm: LLM;

  beforeAll(async () => {
    llm = await LLM.load("models/pocket", {
      dtype: "float32",
      engineThread: false,
      kvCache: { blockTokens: 4, poolBytes: 2 ** 21 },
    });
  });

  afterAll(async () => {
    await llm?.[Symbol.asyncDispose]();
  });

  test("an equal request stores no full block again", async () => {
    await llm.generate("A hash table stores", greedy);
    const first = await llm.kvEvents.getLatestEvents(1000);
    expect(first[0]).toMatchObject({ id: 0, event: { type: "created" } });
    expect(first.filter(({ event }) => event.type === "stored").length).toBeGreaterThan(0);
    await llm.generate("A hash table stores", greedy);
    const again = await llm.kvEvents.getLatestEvents(0);
    const blocks = again.flatMap(({ event }) => (event.type === "stored" ? event.blocks : []));
    expect(blocks.filter(({ tokenIds }) => tokenIds.length === 4)).toEqual([]);
  });

  test("a mirror that follows from a snapshot, or from the start, equals the engine's own tree", async () => {
    const late = new KvMirror();
    const snapshot = await llm.kvEvents.snapshot();
    late.load(snapshot);
    const lateReader = llm.kvEvents.read(snapshot.nextId - 1);
    // More contents than the pool holds: some are forgotten on the way.
    for (let turn = 0; turn < 12; turn++) {
      await llm.generate(`Turn ${turn}: the quick brown fox jumps over the lazy dog`, greedy);
    }
    const { nextId } = await llm.kvEvents.snapshot();
    const whole = new KvMirror();
    for await (const item of llm.kvEvents) {
      if (!isLost(item)) whole.apply(item);
      if (whole.nextId === nextId) break;
    }
    while (late.nextId < nextId) {
      for (const item of (await lateReader.take()) ?? []) if (!isLost(item)) late.apply(item);
    }
    const now = await llm.kvEvents.snapshot();
    expect(now.nextId).toBe(nextId);
    expect(now.blocks.length).toBeGreaterThan(10);
    expect(whole.equals(now)).toBe(true);
    expect(late.equals(now)).toBe(true);
    const followed = llm.kvEvents.read();
    const types = new Set(
      ((await followed.take()) ?? []).map((item) => (isLost(item) ? "lost" : item.event.type)),
    );
    expect(types).toContain("removed");
  });

  test("without a buffer nothing is told, readers end and a snapshot is refused (T 43)", async () => {
    const kvCache = { eventBufferMax: 0 };
    const options = { dtype: "float32", engineThread: false, kvCache } as const;
    await using silent = await LLM.load("models/pocket", options);
    await silent.generate("A hash table stores", greedy);
    expect(silent.kvEvents.enabled).toBe(false);
    expect(await silent.kvEvents.getLatestEvents()).toEqual([]);
    expect(await silent.kvEvents.read().take()).toBeNull();
    await expect(silent.kvEvents.snapshot()).rejects.toThrow("eventBufferMax above 0");
  });
});

test("three prompts shifted by one store five blocks each and push out older ones (T 45)", async () => {
  const load = (poolBytes: number | null) =>
    LLM.load("models/pocket", {
      dtype: "float32",
      engineThread: false,
      kvCache: { blockTokens: 32, poolBytes },
      scheduler: { contextTokensMax: 256 },
    });
  const bytesPerBlock = await load(null).then(async (llm) => {
    await llm[Symbol.asyncDispose]();
    return llm.info.bytesPerBlock;
  });
  await using llm = await load(8 * bytesPerBlock);
  await llm.kvEvents.getLatestEvents(1000);
  for (let shift = 0; shift < 3; shift++) {
    const promptTokenIds = Array.from({ length: 127 }, (_, place) => 100 + shift + place);
    await llm.generate({ promptTokenIds }, { temperature: 0, maxTokens: 6, ignoreEos: true });
    const events = (await llm.kvEvents.getLatestEvents(1000)).map(({ event }) => event);
    const stored = events.flatMap((event) => (event.type === "stored" ? event.blocks : []));
    // 132 positions are computed: the last token drawn is not.
    expect(stored.map(({ tokenIds }) => tokenIds.length)).toEqual([32, 32, 32, 32, 4]);
    expect(events.some(({ type }) => type === "removed")).toBe(shift > 0);
  }
  expect(await llm.kvEvents.getLatestEvents(0)).toEqual([]);
});

describe("a cache that is emptied on request", () => {
  test.each([true, false])("its readers know (engine's thread: %s)", async (engineThread) => {
    await using llm = await LLM.load("test/fixtures/models/llama", {
      ...{ engineThread, onWarning: () => {} },
      kvCache: { blockTokens: 4, poolBytes: 2 ** 20 },
    });
    const prompt = { promptTokenIds: Array.from({ length: 20 }, (_, at) => 3 + at) };
    const cachedTokens = async () => {
      const [result] = await llm.generate(prompt, { maxTokens: 1, temperature: 0 });
      return result?.cachedTokens ?? -1;
    };
    await cachedTokens();
    expect(await cachedTokens()).toBeGreaterThan(0);
    await llm.kvEvents.getLatestEvents(0);
    await llm.forgetCached();
    const types = (await llm.kvEvents.getLatestEvents(1000)).map(({ event }) => event.type);
    expect(new Set(types)).toEqual(new Set(["removed"]));
    expect((await llm.kvEvents.snapshot()).blocks).toEqual([]);
    expect(await cachedTokens()).toBe(0);
  });

  test("a joined model can ask for it, too, and none can when the engine is gone", async () => {
    const llm = await LLM.load("test/fixtures/models/llama", { onWarning: () => {} });
    const joined = await LLM.join(llm.connect());
    await joined.forgetCached();
    await joined.close();
    await llm.close();
    await expect(llm.forgetCached()).rejects.toMatchObject({ code: "ENGINE_DEAD" });
  });
});
