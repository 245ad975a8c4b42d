/** Work whose cost a client decides: it can be stopped, and no other job waits behind it. */
import { existsSync } from "node:fs";
import { describe, expect, onTestFinished, test } from "vitest";
import { systemClock, systemTimer } from "#base";
import { TextPool, type TextPoolOptions } from "#tokenizer";
import { hardTexts, loadTokenizer, tokenizerJson } from "./fixtures.ts";

const template =
  "{% for message in messages %}{{ message.role }}: {{ message.content }}\n{% endfor %}";
const looping =
  "{% for a in range(9999) %}{% for b in range(9999) %}{% for c in range(9999) %}" +
  "{% endfor %}{% endfor %}{% endfor %}";
/** Two of them are a thread's whole memory. */
const hungry =
  "{% set box = namespace(all=[]) %}{% for i in range(99999) %}" +
  "{% set box.all = box.all + [range(9999)] %}{% endfor %}";

function openPool(options: Partial<TextPoolOptions> = {}, kind = "gpt2-byte-bpe"): TextPool {
  const pool = new TextPool(
    {
      files: { tokenizerJson: tokenizerJson(kind) },
      template: { text: template, from: "model" },
      toolTemplate: { text: "{{ tools[0].function.name }} is called", from: "model" },
    },
    {
      ...{ textWorkers: 3, textDeadlineMs: 10_000, textQueueMax: 100, textMemoryBytes: 2 ** 28 },
      ...{ clock: systemClock, timer: systemTimer, ...options },
    },
  );
  onTestFinished(() => pool.close());
  return pool;
}

const encoding = (text: string) =>
  ({ kind: "encode", texts: [text], addSpecialTokens: false }) as const;

const chat = (source: string | null, content: string) =>
  ({
    kind: "chat",
    messages: [{ role: "user", content }],
    options: {},
    template: source,
    bytesMax: 2 ** 20,
    tokensMax: null,
  }) as const;

/** Turns of the calling thread until `work` settles: none where it was blocked. */
async function turnsDuring(work: Promise<unknown>): Promise<number> {
  let turns = 0;
  const timer = setInterval(() => turns++, 1);
  await work.catch(() => {});
  clearInterval(timer);
  return turns;
}

// The threads run built code.
describe.runIf(existsSync("dist/tokenizer/text-thread.js"))("the text pool", () => {
  test.each(["gpt2-byte-bpe", "llama2-style-sp-bpe", "unigram-metaspace", "bert-wordpiece"])(
    "%s gives the same on a thread",
    async (kind) => {
      const pool = openPool({}, kind);
      const tokenizer = loadTokenizer(kind);
      const text = hardTexts.join(" ").repeat(20);
      const ids = tokenizer.encodeNow(text, { addSpecialTokens: false });
      const [encoded] = await pool.run(encoding(text), { size: text.length });
      expect(Array.from(encoded ?? [])).toEqual(ids);
      const decoding = { kind: "decode", ids, skipSpecialTokens: true } as const;
      expect(await pool.run(decoding, { size: 1 })).toBe(tokenizer.decode(ids));
      const spoken = await pool.run(chat(null, "Hello"), { size: 1 });
      expect(tokenizer.decode([...spoken.ids])).toContain("ello");
    },
  );

  test("a template's endless loop is stopped by name, and stops no other job", async () => {
    const pool = openPool({ textDeadlineMs: 500 });
    const size = Number.POSITIVE_INFINITY;
    await pool.run(encoding("warm"), { size: 1 });
    const stuck = pool.run(chat(looping, "x"), { size });
    const turns = turnsDuring(stuck);
    const others = Array.from({ length: 20 }, (_, i) => pool.run(chat(null, `${i}`), { size: 1 }));
    await Promise.all(others);
    await expect(stuck).rejects.toMatchObject({
      code: "INVALID_ARGUMENT",
      param: "messages",
      message: expect.stringContaining("500 ms (textDeadlineMs)"),
    });
    expect(await turns).toBeGreaterThan(10);
    // A new thread takes the place of the one that was stopped.
    const [ids] = await pool.run(encoding("after"), { size });
    expect(ids?.length).toBeGreaterThan(0);
  });

  test("a range of 3,000,000 is refused before it is made", async () => {
    const loop = "{% for i in range(3000000) %}{% endfor %}";
    const answer = openPool().run(chat(loop, "x"), { size: Number.POSITIVE_INFINITY });
    await expect(answer).rejects.toThrow("range() gives at most 100000 items, asked for 3000000");
  });

  test("a job that takes too much memory is refused by name, and the process goes on", async () => {
    const pool = openPool({ textMemoryBytes: 2 ** 26, textDeadlineMs: 60_000 });
    const answer = pool.run(chat(hungry, "x"), { size: Number.POSITIVE_INFINITY });
    await expect(answer).rejects.toMatchObject({
      code: "INVALID_ARGUMENT",
      message: expect.stringContaining("67108864 bytes (textMemoryBytes)"),
    });
    expect(await pool.run(encoding("after"), { size: 1 })).toHaveLength(1);
  });

  test("jobs beside the one that is stopped are done by the next thread", async () => {
    const pool = openPool({ textDeadlineMs: 500, textWorkers: 1 });
    const stuck = pool.run(chat(looping, "x"), { size: 1 });
    const others = ["a", "b", "c"].map((text) => pool.run(encoding(text), { size: 1 }));
    await expect(stuck).rejects.toMatchObject({ code: "INVALID_ARGUMENT" });
    const tokenizer = loadTokenizer("gpt2-byte-bpe");
    const answers = (await Promise.all(others)).map(([ids]) => tokenizer.decode([...(ids ?? [])]));
    expect(answers).toEqual(["a", "b", "c"]);
  });

  test("small jobs that share a stopped job's thread are done by the next", async () => {
    const pool = openPool({ textDeadlineMs: 500 });
    const stuck = pool.run(chat(looping, "x"), { size: 1 });
    const others = Array.from({ length: 12 }, (_, i) => pool.run(chat(null, `${i}`), { size: 1 }));
    await expect(stuck).rejects.toMatchObject({ code: "INVALID_ARGUMENT" });
    for (const { ids } of await Promise.all(others)) expect(ids.length).toBeGreaterThan(0);
  });

  test("the queue is bounded, and a job that leaves it makes room", async () => {
    const pool = openPool({ textQueueMax: 2, textWorkers: 1, textDeadlineMs: 60_000 });
    const stop = new AbortController();
    const { signal } = stop;
    const size = 1;
    const all = [chat(looping, "x"), chat(null, "1"), chat(null, "2")].map((job) =>
      pool.run(job, { size, signal }).catch((error) => error.message),
    );
    await expect(pool.run(chat(null, "3"), { size })).rejects.toMatchObject({
      code: "QUEUE_FULL",
      message: expect.stringContaining("textQueueMax"),
    });
    stop.abort(new Error("left"));
    expect(await Promise.all(all)).toEqual(["left", "left", "left"]);
    expect(pool.waitingCount).toBe(0);
  });

  test("closing rejects what runs and what waits; the next job starts a thread again", async () => {
    const pool = openPool({ textWorkers: 1, textDeadlineMs: 60_000 });
    const jobs = [looping, null].map((source) =>
      pool.run(chat(source, "x"), { size: 1 }).catch((error) => error.code),
    );
    await pool.close();
    expect(await Promise.all(jobs)).toEqual(["ENGINE_DEAD", "ENGINE_DEAD"]);
    expect(pool.threadCount).toBe(0);
    expect(await pool.run(encoding("a"), { size: 1 })).toHaveLength(1);
  });

  test("the model's own template for tools is taken for a conversation with tools", async () => {
    const pool = openPool();
    const tools = [{ type: "function", function: { name: "perigee_probe_tool" } }];
    const { ids, toolsAsText } = await pool.run(
      { ...chat(null, "x"), options: { tools } },
      { size: 1 },
    );
    expect(toolsAsText).toBe(false);
    const text = loadTokenizer("gpt2-byte-bpe").decode([...ids]);
    expect(text).toBe("perigee_probe_tool is called");
  });

  test("threads start when they are needed, and end when they are not", async () => {
    const pool = openPool({ idleMs: 50 });
    expect(pool.threadCount).toBe(0);
    await pool.run(encoding("a"), { size: 1 });
    expect(pool.threadCount).toBe(1);
    await expect.poll(() => pool.threadCount, { timeout: 10_000 }).toBe(0);
    expect(await pool.run(encoding("a"), { size: 1 })).toHaveLength(1);
  });

  test("the thread of short texts can be started before it is needed", async () => {
    const pool = openPool();
    pool.warmUp();
    pool.warmUp();
    expect(pool.threadCount).toBe(1);
    expect(await pool.run(encoding("a"), { size: 1 })).toHaveLength(1);
    expect(pool.threadCount).toBe(1);
  });

  test("many short texts start the threads of longer ones, few do not", async () => {
    const pool = openPool({ textQueueMax: 1000 });
    const encoded = (count: number) =>
      Promise.all(Array.from({ length: count }, (_, i) => pool.run(encoding(`${i}`), { size: 1 })));
    await encoded(30);
    expect(pool.threadCount).toBe(1);
    const ids = (await encoded(400)).map(([one]) => Array.from(one ?? []));
    expect(pool.threadCount).toBe(3);
    const tokenizer = loadTokenizer("gpt2-byte-bpe");
    const wanted = ids.map((_, i) => tokenizer.encodeNow(`${i}`, { addSpecialTokens: false }));
    expect(ids).toEqual(wanted);
  });

  test("what does not cross to a thread is refused, and nothing else", async () => {
    const pool = openPool();
    const job = { ...chat(null, "x"), options: { variables: { f: () => 1 } } };
    const [wrong, right] = [pool.run(job, { size: 1 }), pool.run(chat(null, "x"), { size: 1 })];
    await expect(wrong).rejects.toMatchObject({ code: "INVALID_ARGUMENT", param: "messages" });
    expect((await right).ids.length).toBeGreaterThan(0);
  });
});
