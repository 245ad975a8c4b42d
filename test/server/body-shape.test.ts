import { describe, expect, test } from "vitest";
import { BODY_LEVELS_MAX, checkBodyShape, checkTextShape } from "../../src/server/body-shape.ts";
import { json } from "../support/json.ts";
import { closeToyServers, serveToy } from "../support/toy-server.ts";

closeToyServers();

const nested = (depth: number): unknown => JSON.parse(`${"[".repeat(depth)}${"]".repeat(depth)}`);

test("bodies nested as deeply as the limit are taken, deeper ones are refused", () => {
  expect(() => checkBodyShape({ a: nested(BODY_LEVELS_MAX) }, 1000)).not.toThrow();
  expect(() => checkBodyShape({ a: nested(BODY_LEVELS_MAX + 1) }, 1000)).toThrow(/64 levels/);
});

test("values are counted wherever they stand, token ids of prompts apart", () => {
  const many = new Array(2000).fill(null);
  expect(() => checkBodyShape({ messages: many }, 1000)).toThrow(/at most 1000 values/);
  expect(() => checkBodyShape({ a: { b: [{ c: many.map(() => 1) }] } }, 1000)).toThrow(/1000/);
  const ids = many.map((_, at) => at);
  expect(() => checkBodyShape({ prompt: ids }, 1000)).not.toThrow();
  expect(() => checkBodyShape({ prompt: [ids, ids] }, 1000)).not.toThrow();
});

test("an object that names its prototype is refused, wherever it stands", async () => {
  const bodies = [
    '{"a":[{"__proto__":{"b":1}}]}',
    '{"a":{"\\u005f_proto__":1}}',
    '{"constructor":{"prototype":{"b":1}}}',
  ];
  for (const body of bodies) {
    expect(() => checkBodyShape(JSON.parse(body), 1000)).toThrow(/no field may be/);
  }
  for (const body of ['{"constructor":null}', '{"constructor":{"a":1}}', '{"prototype":1}']) {
    expect(() => checkBodyShape(JSON.parse(body), 1000)).not.toThrow();
  }
  const { post } = await serveToy();
  const answer = await post("/v1/completions", { prompt: "a", constructor: { prototype: 1 } });
  expect(answer.status).toBe(400);
  expect((await json(answer)).error?.code).toBe("invalid_json_body");
});

test("a body of more values than the server takes is refused by name", async () => {
  const { post } = await serveToy({}, { requestValuesMax: 50 });
  const answer = await post("/v1/completions", { prompt: "a", stop: new Array(60).fill("x") });
  expect(answer.status).toBe(400);
  expect((await json(answer)).error?.code).toBe("too_many_values");
});

describe("before it is parsed", () => {
  const bareMax = 4 * 2 ** 20;
  const padding = `"${"x".repeat(70_000)}"`;
  const body = (value: string) => `{"a":${padding},"b":${value}}`;
  const list = (item: string, count: number) => `[${new Array(count).fill(item).join(",")}]`;

  test("a text is refused for what its value would be refused for", () => {
    expect(() => checkTextShape(body(list("[]", 3000)), { valuesMax: 1000, bareMax })).toThrow(
      /at most 1000 values/,
    );
    expect(() => checkTextShape(body(list('"a"', 3000)), { valuesMax: 1000, bareMax })).toThrow(
      /at most 1000 values/,
    );
    const deep = (levels: number) => body(`${"[".repeat(levels)}${"]".repeat(levels)}`);
    expect(() => checkTextShape(deep(BODY_LEVELS_MAX), { valuesMax: 1000, bareMax })).not.toThrow();
    expect(() => checkTextShape(deep(BODY_LEVELS_MAX + 1), { valuesMax: 1000, bareMax })).toThrow(
      /64 levels/,
    );
  });

  test("what is taken behind it is not refused", () => {
    const fields = Array.from({ length: 990 }, (_, at) => `"k${at}":"v"`).join(",");
    for (const value of [`{${fields}}`, list("{}", 990), list("7", 100_000), list("null", 900)]) {
      expect(() => checkTextShape(body(value), { valuesMax: 1000, bareMax })).not.toThrow();
      expect(() => checkBodyShape(JSON.parse(body(value)), 1000)).not.toThrow();
    }
  });

  test("millions of numbers are refused, and long texts are not", () => {
    expect(() => checkTextShape(body(list("0", 2_200_000)), { valuesMax: 1e9, bareMax })).toThrow(
      /outside of texts/,
    );
    expect(() =>
      checkTextShape(body(list("0", 2_000_000)), { valuesMax: 1e9, bareMax }),
    ).not.toThrow();
    expect(() =>
      checkTextShape(body(`"${"0,".repeat(4_000_000)}"`), { valuesMax: 1e9, bareMax }),
    ).not.toThrow();
  });

  test("brackets and quotes inside of texts mean nothing", () => {
    const texts = [
      "[".repeat(5000),
      '\\"'.repeat(5000),
      "\\\\",
      '{\\"a\\":['.repeat(900),
      "]}\\\\",
    ];
    for (const inner of texts) {
      const text = body(list(`"${inner}"`, 2));
      expect(JSON.parse(text)).toHaveProperty("b");
      expect(() => checkTextShape(text, { valuesMax: 10, bareMax })).not.toThrow();
    }
  });

  test("it is linear in texts that do not end and in backslashes", () => {
    for (const part of ["\\", '"', '\\"', "[", "]"]) {
      const text = `{"a":"${part.repeat(4_000_000 / part.length)}`;
      const startMs = performance.now();
      try {
        checkTextShape(text, { valuesMax: 1_000_000, bareMax });
      } catch {
        // Refused or not: it came to an end.
      }
      expect(performance.now() - startMs).toBeLessThan(5_000);
    }
  });
});
