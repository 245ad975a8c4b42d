/** What handlers of a chat may do: return anything, throw anything, never return. */
import { describe, expect, test } from "vitest";
import type { ChatTool } from "#engine";
import { chatEvents } from "../../src/engine/caller/chat-rounds.ts";
import { runTool } from "../../src/engine/caller/chat-tools.ts";
import { ToyModel } from "../support/toy-model.ts";

const call = { id: "call_1", name: "f", arguments: {}, argumentsText: "{}" };

/** What the model is told of a call. */
function resultOf(run: ChatTool["run"], signal?: AbortSignal) {
  return runTool([{ name: "f", ...(run !== undefined && { run }) }], call, signal);
}

/** Thirty levels of pairs: 2³⁰ values in 30 objects. */
function manyPaths(): unknown {
  let value: unknown = [];
  for (let level = 0; level < 30; level++) value = [value, value];
  return value;
}

/** Each look makes more of it. */
function endless(): unknown {
  return {
    get inner() {
      return Array.from({ length: 64 }, endless);
    },
  };
}

describe("results", () => {
  test.for([
    ["many values", () => new Array(10 ** 9)],
    ["many paths to one value", manyPaths],
    ["many bytes", () => Buffer.alloc(2 ** 26)],
    ["many bytes within", () => ({ data: { bytes: new Uint8Array(2 ** 26) } })],
    ["many bytes in a list", () => [Buffer.alloc(2 ** 26)]],
    ["long texts", () => Array.from({ length: 64 }, () => "x".repeat(2 ** 20))],
    ["long names", () => ({ ["x".repeat(2 ** 21)]: 1 })],
    ["a tree without end", endless],
  ] as const)("of %s are an error, before they are written", async ([, make]) => {
    const value = make();
    const startMs = performance.now();
    const { result, isError } = await resultOf(() => value);
    expect(performance.now() - startMs).toBeLessThan(1000);
    expect([isError, result.length < 1_100]).toEqual([true, true]);
    expect(JSON.parse(result).error).toMatch(/too large|call stack/);
  });

  test("that are long texts are cut", async () => {
    const { result, isError } = await resultOf(() => "x".repeat(2 ** 24));
    expect([result.length, isError]).toEqual([1_000_000, false]);
  });

  test("that are no JSON are an error, which says so", async () => {
    const circle: Record<string, unknown> = {};
    circle.self = circle;
    for (const value of [circle, 2n ** 70n]) {
      const { result, isError } = await resultOf(() => value);
      expect(isError).toBe(true);
      expect(JSON.parse(result).error).toMatch(/circular|BigInt/);
    }
    for (const value of [undefined, Symbol("s"), () => 1, null]) {
      expect(await resultOf(() => value)).toMatchObject({ result: "null", isError: false });
    }
  });
});

describe("errors", () => {
  test("of any kind have a short text", async () => {
    const textless = {
      toString() {
        throw new Error("none");
      },
    };
    const proxy = new Proxy(
      {},
      {
        getPrototypeOf: () => {
          throw new Error("none");
        },
      },
    );
    const message = { ...new Error("a"), message: 5 };
    const wrong = Object.assign(new Error("a"), { message: { a: 1 } });
    const bare: unknown = Object.create(null);
    const long = new Error("x".repeat(2 ** 24));
    for (const thrown of [textless, proxy, message, wrong, bare, long, null, Symbol("s")]) {
      const { result, isError } = await resultOf(() => {
        throw thrown;
      });
      expect(isError).toBe(true);
      expect(result.length).toBeLessThan(1_100);
      expect(typeof JSON.parse(result).error).toBe("string");
    }
  });
});

describe("a handler that never returns", () => {
  test("is not waited for once the chat is cancelled", async () => {
    const controller = new AbortController();
    let begun = () => {};
    const started = new Promise<void>((resolve) => {
      begun = resolve;
    });
    const hanging: ChatTool = {
      name: "f",
      run: () => {
        begun();
        return new Promise(() => {});
      },
    };
    const asked = '<tool_call>{"name": "f", "arguments": {}}</tool_call>';
    const model = new ToyModel({ reply: () => asked });
    const events = chatEvents(model, [{ role: "user", content: "?" }], {
      ...{ tools: [hanging], signal: controller.signal },
    });
    const all = (async () => {
      for await (const _ of events);
    })();
    await started;
    controller.abort(new Error("enough"));
    await expect(all).rejects.toThrow("enough");
    expect(model.runningCount).toBe(0);
  });

  test("one that fails later disturbs no process", async () => {
    const controller = new AbortController();
    let fail = (_: Error) => {};
    const late = new Promise((_, reject) => {
      fail = reject;
    });
    const running = resultOf(() => late, controller.signal);
    controller.abort(new Error("enough"));
    await expect(running).rejects.toThrow("enough");
    fail(new Error("too late"));
    await new Promise((resolve) => setImmediate(resolve));
  });

  test("the signal keeps no listener of calls that are over", async () => {
    const controller = new AbortController();
    const removed: string[] = [];
    const { signal } = controller;
    const remove = signal.removeEventListener.bind(signal);
    signal.removeEventListener = (type, listener) => {
      removed.push(type);
      remove(type, listener);
    };
    await resultOf(() => 1, signal);
    expect(removed).toEqual(["abort"]);
  });
});

test("a model that calls without end is answered eight times at most", async () => {
  const asked = '<tool_call>{"name": "f", "arguments": {}}</tool_call>';
  const model = new ToyModel({ reply: () => asked });
  let runs = 0;
  const events = chatEvents(model, [{ role: "user", content: "?" }], {
    tools: [{ name: "f", run: () => ++runs }],
  });
  let rounds = 0;
  for await (const event of events) if (event.type === "end") rounds = event.result.rounds;
  expect([rounds, runs, model.requests.length]).toEqual([8, 7, 8]);
});

test("a schema whose alternatives name itself is looked at for a moment only", async () => {
  const either = { anyOf: [{ $ref: "#/$defs/a" }, { $ref: "#/$defs/a" }] };
  const parameters = { ...either, $defs: { a: either } };
  const startMs = performance.now();
  await runTool([{ name: "f", parameters, run: () => 1 }], call, undefined);
  expect(performance.now() - startMs).toBeLessThan(1000);
});

test("a schema that is no JSON is refused before the first round", async () => {
  const model = new ToyModel();
  for (const value of [2n, Buffer.alloc(2 ** 26), new Array(10 ** 9)]) {
    const tools = [{ name: "f", parameters: { value } }];
    const events = chatEvents(model, [{ role: "user", content: "?" }], { tools });
    const refused = { code: "INVALID_ARGUMENT", param: "tools[0].parameters" };
    await expect(events.next()).rejects.toMatchObject(refused);
  }
  expect(model.chats).toEqual([]);
});

test("a tool's schema is what it was when the chat began", async () => {
  const parameters = { type: "object", properties: {}, required: [] as string[] };
  const asked = '<tool_call>{"name": "f", "arguments": {}}</tool_call>';
  const model = new ToyModel({ reply: (prompt) => (prompt.includes("tool:") ? "ok" : asked) });
  const tool: ChatTool = {
    name: "f",
    parameters,
    run: () => {
      parameters.required.push("never");
    },
  };
  const tools = [tool];
  for await (const event of chatEvents(model, [{ role: "user", content: "?" }], { tools })) {
    if (event.type === "tool-call") tools.length = 0;
    if (event.type === "tool-result") expect(event.isError).toBe(false);
  }
  expect(model.chats[1]?.options.tools).toEqual(model.chats[0]?.options.tools);
});
