import { decode } from "@msgpack/msgpack";
import { afterEach, expect, test } from "vitest";
import { Dealer, Subscriber } from "zeromq";
import { EngineError } from "#base";
import type { KvEvent, VllmEvent } from "#kvcache";
import { KvPublishing } from "../../../src/server/kv-events/kv-publishing.ts";
import { ZmqKvPublisher } from "../../../src/server/kv-events/zmq-publisher.ts";
import { ReplayBuffer } from "../../../src/server/kv-events/zmq-replay.ts";
import { eachNth, sized } from "../../support/full.ts";
import { json } from "../../support/json.ts";
import { RandomHistory, stored } from "../../support/kv-events.ts";
import { ScriptedEvents } from "../../support/scripted-events.ts";
import { closeToyServers, serveToy } from "../../support/toy-server.ts";
import { VllmIndex } from "../../support/vllm-index.ts";

closeToyServers();

/** What happens in a cache whose subscriber falls behind. */
const STEPS = sized(15_000, 50_000);

const closing: { close(): unknown }[] = [];
afterEach(async () => {
  for (const each of closing.splice(0).reverse()) await each.close();
});

const cleared: VllmEvent = { type: "AllBlocksCleared" };

async function publish(options: Partial<Parameters<typeof ZmqKvPublisher.start>[0]> = {}) {
  const publisher = await ZmqKvPublisher.start({
    endpoint: "tcp://*:0",
    replayEndpoint: "tcp://*:0",
    topic: "kv@here@toy",
    nowSeconds: () => 1789095808.5,
    ...options,
  });
  closing.push(publisher);
  return publisher;
}

/** A free port on this machine as a client calls it. */
const local = (endpoint: string) => endpoint.replace("0.0.0.0", "127.0.0.1");

async function subscribe(endpoint: string, topic = "") {
  const subscriber = new Subscriber({ receiveHighWaterMark: 0, receiveTimeout: 10_000 });
  subscriber.connect(local(endpoint));
  subscriber.subscribe(topic);
  closing.push(subscriber);
  // Subscriptions travel by themselves, and nothing says when they have arrived.
  await new Promise((resolve) => setTimeout(resolve, 300));
  return subscriber;
}

interface Message {
  readonly topic: string;
  readonly sequence: bigint;
  readonly batch: readonly [seconds: number, events: readonly VllmEvent[], rank: number];
}

async function receive(subscriber: Subscriber): Promise<Message> {
  const [topic, sequence, payload, ...more] = await subscriber.receive();
  if (topic === undefined || sequence === undefined || payload === undefined) {
    throw new Error("A message has three frames");
  }
  expect(more).toEqual([]);
  expect(sequence).toHaveLength(8);
  return {
    topic: topic.toString(),
    sequence: sequence.readBigUInt64BE(),
    batch: decode(payload, { useBigInt64: true }) as Message["batch"], // as vLLM's readers do
  };
}

/** All answers to a request for a replay, without the end. */
async function replay(endpoint: string, start: bigint): Promise<Buffer[][]> {
  const dealer = new Dealer({ receiveTimeout: 10_000 });
  closing.push(dealer);
  dealer.connect(local(endpoint));
  const frame = Buffer.alloc(8);
  frame.writeBigUInt64BE(start);
  await dealer.send(["", frame]);
  const answers: Buffer[][] = [];
  for (;;) {
    const frames = await dealer.receive();
    if (frames[2]?.equals(Buffer.alloc(8, 0xff))) {
      expect(frames.map(({ length }) => length)).toEqual([0, 0, 8, 0]);
      return answers;
    }
    answers.push(frames);
  }
}

const sequences = (answers: readonly Buffer[][]) =>
  answers.map(([, , sequence]) => Number(sequence?.readBigUInt64BE()));

test("a message is topic, sequence from 0 and msgpack of [seconds, events, rank] (V 2.1)", async () => {
  const publisher = await publish();
  const subscriber = await subscribe(publisher.endpoint, "kv@");
  const hash = 15760518052499183552n;
  const event: VllmEvent = {
    type: "BlockStored",
    block_hashes: [hash],
    parent_block_hash: null,
    token_ids: [1, 70_000],
    block_size: 2,
    lora_id: null,
    medium: "GPU",
    lora_name: null,
    extra_keys: [null],
    group_idx: 0,
    kv_cache_spec_kind: "full_attention",
  };
  await publisher.publish([event]);
  await publisher.publish([]);
  await publisher.publish([
    { type: "BlockRemoved", block_hashes: [5n], medium: "CPU", group_idx: 0 },
  ]);
  const first = await receive(subscriber);
  expect(first).toMatchObject({ topic: "kv@here@toy", sequence: 0n });
  expect(first.batch).toEqual([1789095808.5, [event], 0]);
  const second = await receive(subscriber);
  expect(second.sequence).toBe(1n);
  expect(second.batch[1]).toMatchObject([{ type: "BlockRemoved", block_hashes: [5n] }]);
});

test("topics are told apart by their beginning (V 2.2)", async () => {
  const publisher = await publish();
  const others = await subscribe(publisher.endpoint, "kv@elsewhere");
  const subscriber = await subscribe(publisher.endpoint, "kv@here");
  await publisher.publish([cleared]);
  expect((await receive(subscriber)).sequence).toBe(0n);
  others.receiveTimeout = 100;
  await expect(others.receive()).rejects.toThrow();
});

test("after 19 batches a replay from 10 gives 10 to 18 (V 2.2)", async () => {
  const publisher = await publish();
  for (let batch = 0; batch < 19; batch++) await publisher.publish([cleared]);
  const answers = await replay(publisher.replayEndpoint ?? "", 10n);
  expect(sequences(answers)).toEqual([10, 11, 12, 13, 14, 15, 16, 17, 18]);
  const [delimiter, topic, , payload] = answers[0] ?? [];
  expect([delimiter?.length, topic?.toString()]).toEqual([0, "kv@here@toy"]);
  expect(decode(payload ?? Buffer.alloc(0))).toEqual([1789095808.5, [cleared], 0]);
});

test("a replay buffer of 5 keeps the last 5 batches (V 2.2)", async () => {
  const publisher = await publish({ replayBatches: 5 });
  for (let batch = 0; batch < 12; batch++) await publisher.publish([cleared]);
  expect(sequences(await replay(publisher.replayEndpoint ?? "", 0n))).toEqual([7, 8, 9, 10, 11]);
  expect(await replay(publisher.replayEndpoint ?? "", 12n)).toEqual([]);
});

test("a replay buffer is bounded by bytes, too", () => {
  const buffer = new ReplayBuffer(100, 25);
  for (let sequence = 0n; sequence < 5n; sequence++) buffer.add(sequence, new Uint8Array(10));
  expect(buffer.from(0n).map(({ sequence }) => sequence)).toEqual([3n, 4n]);
});

test("what is no request for a replay is passed over", async () => {
  const publisher = await publish();
  await publisher.publish([cleared]);
  const dealer = new Dealer();
  closing.push(dealer);
  dealer.connect(local(publisher.replayEndpoint ?? ""));
  await dealer.send(["hello"]);
  await dealer.send(["", "short"]);
  expect(sequences(await replay(publisher.replayEndpoint ?? "", 0n))).toEqual([0]);
});

test("a publisher of a plain host connects to the listener there (V 2.1)", async () => {
  const subscriber = new Subscriber({ receiveTimeout: 10_000 });
  closing.push(subscriber);
  await subscriber.bind("tcp://127.0.0.1:*");
  subscriber.subscribe();
  const publisher = await publish({
    endpoint: subscriber.lastEndpoint ?? "",
    replayEndpoint: null,
  });
  expect(publisher.replayEndpoint).toBeNull();
  // What is sent before the connection stands is lost.
  const timer = setInterval(() => void publisher.publish([cleared]).catch(() => {}), 50);
  expect((await receive(subscriber)).batch[1]).toEqual([cleared]);
  clearInterval(timer);
});

test.each(["nonsense", "http://*:5557", "tcp://*:99999", "tcp://*"])(
  "the address %s is refused by name",
  async (endpoint) => {
    await expect(publish({ endpoint })).rejects.toThrow(
      `kvEventsZmq must be like tcp://*:5557, ipc://PATH or inproc://NAME, current value is ${endpoint}`,
    );
  },
);

test("replays are listened for at one address of this machine, too (V 2.1)", async () => {
  const publisher = await publish({ replayEndpoint: "tcp://127.0.0.1:0" });
  await publisher.publish([cleared]);
  expect(await replay(publisher.replayEndpoint ?? "", 0n)).toHaveLength(1);
  expect(publisher.description).toMatch(
    /^listening at tcp:\/\/0\.0\.0\.0:\d+, replays: listening at tcp:\/\/127\.0\.0\.1:[1-9]\d*$/,
  );
});

test("the log says of a plain host that it is connected to", async () => {
  const publisher = await publish({ endpoint: "tcp://127.0.0.1:9", replayEndpoint: null });
  expect(publisher.description).toBe("connecting to tcp://127.0.0.1:9");
});

test("an address in use is refused, and nothing stays open", async () => {
  const port = (await publish()).endpoint.split(":").at(-1);
  const failure = publish({ endpoint: "tcp://*:0", replayEndpoint: `tcp://*:${port}` });
  await expect(failure).rejects.toMatchObject({ code: "IO", param: "kvEventsZmqReplay" });
});

test("a server publishes what its model's cache tells, and says where", async () => {
  const { model, get } = await serveToy(
    {},
    { kvEventsZmq: "tcp://*:0", kvEventsZmqReplay: "tcp://*:0", kvEventsTopic: "kv@a@toy" },
  );
  const { kv_events } = await json(get("/server_info"));
  const zmq = kv_events?.zmq ?? {};
  expect(zmq.topic).toBe("kv@a@toy");
  const subscriber = await subscribe(String(zmq.endpoint));
  const tokenIds = Array.from({ length: 16 }, (_, place) => place);
  const event: KvEvent = stored(null, 1n);
  if (event.type !== "stored") throw new Error("Unreachable");
  model.cache.emit({ ...event, blocks: event.blocks.map((block) => ({ ...block, tokenIds })) });
  const { topic, batch } = await receive(subscriber);
  expect(topic).toBe("kv@a@toy");
  expect(batch[1]).toMatchObject([{ type: "BlockStored", block_size: 16, token_ids: tokenIds }]);
  expect(await replay(String(zmq.replay_endpoint), 0n)).toHaveLength(1);
});

test("a server refuses to publish for a model that tells nothing", async () => {
  const failure = serveToy({ eventBufferMax: 0 }, { kvEventsZmq: "tcp://*:0" });
  await expect(failure).rejects.toThrow(EngineError);
  await expect(failure).rejects.toThrow("eventBufferMax above 0");
});

test("replays need something to replay", async () => {
  const failure = serveToy({}, { kvEventsZmqReplay: "tcp://*:0" });
  await expect(failure).rejects.toThrow("needs kvEventsZmq");
});

test.each(eachNth(2, [1, 2]))(
  "a subscriber ends with the cache's full blocks, though the buffer overflows (seed %i)",
  async (seed) => {
    const publisher = await publish({ replayEndpoint: null });
    const cache = new ScriptedEvents(16);
    const history = new RandomHistory(seed, (event) => cache.queue(event));
    cache.blocks = () => history.snapshot(0).blocks;
    const subscriber = await subscribe(publisher.endpoint);
    const failures: unknown[] = [];
    const publishing = new KvPublishing(cache.source, publisher, {
      blockTokens: 4,
      windows: [null],
      onFailure: (error) => failures.push(error),
    });
    closing.splice(closing.indexOf(publisher), 1, publishing);
    for (let step = 1; step <= STEPS; step++) {
      history.step();
      cache.flush();
      if (step % (step % 5000 < 4500 ? 5 : 60) === 0) await new Promise(setImmediate);
    }
    const index = new VllmIndex(4);
    let clearedCount = 0;
    let next = 0n;
    // Silence is the end: nothing more happens in the cache.
    subscriber.receiveTimeout = 1000;
    for (;;) {
      const message = await receive(subscriber).catch(() => null);
      if (message === null) break;
      expect(message.sequence).toBe(next++);
      for (const event of message.batch[1]) {
        if (event.type === "AllBlocksCleared") clearedCount++;
        index.apply(event);
      }
    }
    expect(failures).toEqual([]);
    expect(index.problemWith(cache.snapshot())).toBeNull();
    expect(clearedCount).toBeGreaterThan(STEPS / 5000);
  },
);
