import { existsSync } from "node:fs";
import { expect, test } from "vitest";
import { type EngineError, systemClock } from "#base";
import { SamplingParams } from "#engine";
import { ActiveRequest } from "../../src/engine/caller/active-request.ts";
import { EngineClient } from "../../src/engine/caller/engine-client.ts";
import { openThread } from "../../src/engine/caller/link.ts";
import { collectResult } from "../../src/engine/caller/stream-item.ts";
import type { EngineRequest, FromEngine, ToEngine } from "../../src/engine/protocol/protocol.ts";
import { packOutputs } from "../../src/engine/protocol/token-rows.ts";
import { engineDeath } from "../../src/engine/protocol/wire-error.ts";

/** A client whose engine is the test. */
class ClientUnderTest {
  readonly client: EngineClient;
  readonly posted: ToEngine[] = [];
  keptAlive = true;
  say: (message: FromEngine) => void = () => {};

  constructor() {
    this.client = new EngineClient(
      (onMessage) => {
        this.say = onMessage;
        return {
          post: (message) => this.posted.push(message),
          keepAlive: (wanted) => {
            this.keptAlive = wanted;
          },
          close: async () => {},
        };
      },
      () => {},
    );
  }

  start(maxTokens = 4): ActiveRequest {
    const key = this.client.takeKey();
    const request: EngineRequest = {
      key,
      requestId: `request-${key}`,
      promptTokenIds: Int32Array.of(1, 2),
      params: SamplingParams.parse({ maxTokens }),
      seed: 0n,
      cacheSalt: null,
      retention: null,
      priority: 0,
      badWordTokenIds: [],
      thinking: null,
      promptLogits: false,
      ...{ draftShape: null, predictedTokenIds: null },
    };
    const active = new ActiveRequest({
      request,
      tokenizer: null,
      bytesPerBlock: 0,
      clock: systemClock,
      listeners: this.client.listeners,
      unreadTokensMax: 4,
      setPaused: (paused) => this.client.setPaused(key, paused),
      abort: (index) => this.client.abort(key, index),
      onEnd: () => this.client.forget(key),
    });
    this.client.start(active, request);
    return active;
  }

  /** One step in which `key` gets `tokenId`. */
  step(key: number, tokenId: number, finishReason: "stop" | "length" | null = null): void {
    this.say({
      type: "step",
      ...packOutputs([
        {
          key,
          index: 0,
          tokenIds: [tokenId],
          logprobs: null,
          finishReason,
          stopReason: null,
          beam: null,
          prompt: null,
          heldBlockMs: 0,
        },
      ]),
      embeddings: [],
      failures: [],
      report: { stepTokens: 1, sequences: 1, seconds: 0, planSeconds: 0 },
      stats: this.client.stats,
    });
  }
}

test("an engine that dies rejects every request and embedding, and takes no more", async () => {
  const { client, say, start } = bound();
  const results = [start(), start()].map(({ items }) => collectResult("", items));
  const embedding = client.embed(Int32Array.of(1));
  const heard: EngineError[] = [];
  client.listeners.add({ onDead: (error) => heard.push(error) });
  say({ type: "dead", error: engineDeath("the engine thread ended with code 7") });
  for (const result of [...results, embedding]) {
    await expect(result).rejects.toMatchObject({
      code: "ENGINE_DEAD",
      message: "Cannot continue: the engine thread ended with code 7",
    });
  }
  expect(heard).toMatchObject([{ code: "ENGINE_DEAD" }]);
  expect(client.health).toMatchObject({ state: "dead" });
  expect(client.stats).toMatchObject({ running: 0, waiting: 0, heldBlocks: 0 });
  expect(() => client.checkReady()).toThrow("Cannot run: the engine has stopped");
  await client.drain();
});

test("draining takes nothing new, and ends when what runs has ended", async () => {
  const scripted = new ClientUnderTest();
  const active = scripted.start();
  let drained = false;
  const draining = scripted.client.drain().then(() => {
    drained = true;
  });
  expect(() => scripted.client.checkReady()).toThrow("the server is shutting down");
  scripted.step(active.request.key, 5);
  await Promise.resolve();
  expect(drained).toBe(false);
  scripted.step(active.request.key, 6, "length");
  await draining;
  const { completions } = await collectResult("", active.items);
  expect(completions[0]?.tokenIds).toEqual([5, 6]);
});

test("a waiting request keeps the process alive, and nothing does so afterwards", () => {
  const scripted = new ClientUnderTest();
  const first = scripted.start();
  const second = scripted.start();
  expect(scripted.keptAlive).toBe(true);
  scripted.step(first.request.key, 5, "stop");
  expect(scripted.keptAlive).toBe(true);
  second.cancel();
  expect(scripted.keptAlive).toBe(false);
});

test("late items of a cancelled request are dropped", async () => {
  const scripted = new ClientUnderTest();
  const gone = scripted.start();
  gone.cancel();
  expect(scripted.posted.at(-1)).toEqual({ type: "abort", key: gone.request.key });
  const next = scripted.start();
  scripted.step(gone.request.key, 5);
  scripted.step(next.request.key, 6, "stop");
  expect((await collectResult("", next.items)).completions[0]?.tokenIds).toEqual([6]);
});

test("a reader that leaves early cancels its request", async () => {
  const scripted = new ClientUnderTest();
  const active = scripted.start();
  scripted.step(active.request.key, 5);
  for await (const item of active.items) {
    expect(item.tokenIds).toEqual([5]);
    break;
  }
  expect(scripted.posted.at(-1)).toEqual({ type: "abort", key: active.request.key });
});

test("an embedding that is aborted rejects with the reason, and the engine is told", async () => {
  const scripted = new ClientUnderTest();
  const stop = new AbortController();
  const embedding = scripted.client.embed(Int32Array.of(1, 2), stop.signal);
  stop.abort(new Error("changed my mind"));
  await expect(embedding).rejects.toThrow("changed my mind");
  expect(scripted.posted.at(-1)).toMatchObject({ type: "abort" });
  scripted.say({
    type: "step",
    ...packOutputs([]),
    embeddings: [{ key: 1, embedding: new Float32Array(2) }],
    failures: [],
    report: { stepTokens: 1, sequences: 1, seconds: 0, planSeconds: 0 },
    stats: scripted.client.stats,
  });
  await scripted.client.drain();
});

function bound() {
  const scripted = new ClientUnderTest();
  return {
    client: scripted.client,
    say: (message: FromEngine) => scripted.say(message),
    start: () => scripted.start(),
  };
}

// The thread runs built code.
test.runIf(existsSync("dist/engine/thread/engine-thread.js"))(
  "a thread that crashes says so once, and can be closed, twice",
  async () => {
    const heard: FromEngine[] = [];
    const link = openThread((message) => heard.push(message));
    link.post({} as never); // no message at all: what our code never sends
    await expect.poll(() => heard, { timeout: 10_000 }).toHaveLength(1);
    expect(heard[0]).toMatchObject({ type: "dead", error: { code: "ENGINE_DEAD" } });
    await Promise.all([link.close(), link.close()]);
    await link.close();
    expect(heard).toHaveLength(1);
  },
);
