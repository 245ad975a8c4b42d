import { describe, expect, test } from "vitest";
import { plainValue, yamlTree } from "../../../src/cli/configuration/yaml-tree.ts";

const tree = (text: string) => yamlTree(text, "perigee.yaml");

test("values keep their place, and how the file writes them", () => {
  const top = tree("serve:\n  port: 8000\n  # a comment\n  revision: 1.10\n");
  if (top.kind !== "map") throw new Error("wanted a map");
  const serve = top.entries.get("serve")?.node;
  if (serve?.kind !== "map") throw new Error("wanted a map");
  expect(serve.entries.get("revision")?.place).toEqual({ line: 4, column: 3 });
  expect(serve.entries.get("revision")?.node).toMatchObject({ value: 1.1, text: "1.10" });
  expect(plainValue(top)).toEqual({ serve: { port: 8000, revision: 1.1 } });
});

test("an empty file and one of comments have no settings", () => {
  for (const text of ["", "# nothing\n", "---\n"]) {
    expect(plainValue(tree(text)) ?? {}).toEqual({});
  }
});

describe("what settings do not need is refused with line and remedy", () => {
  test.for<[string, string | RegExp]>([
    ["port: 1\nport: 2", "line 2, column 1: port is set twice, before in line 1; remove one"],
    ["a: &x 1\nb: *x", "line 2, column 4: *x is an alias; write the value itself"],
    ["a: !!js/function 1", "settings need no tags, remove it"],
    ["a: 1\n---\nb: 2", "must be one document"],
    ["a: [1, 2", /line 1, column 9: must be YAML: .*; close it$/],
    ["a:\n\t- 1", "indent with spaces"],
    ["? [a]\n: 1", "line 1, column 3: a key must be a name"],
    ["a: .inf", "line 1, column 4: .inf is no text, number, true, false or null"],
    ["a: 'one", "must be YAML: missing closing 'quote"],
    [
      "a:\n  b: 1\n   c: 2",
      /line 2, column 6: must be YAML: .*; put each key on a line of its own/,
    ],
    [
      "a:\n  b: 1\n c: 2",
      /line 3, column 1: must be YAML: .*; indent the keys of one section alike/,
    ],
    ["a: 1\r\na: 2\r\n", "line 2, column 1: a is set twice"],
    ["\uFEFFa: 1\na: 2", "line 2, column 1: a is set twice"],
    ["a: b: c", /line 1, column 4: must be YAML: .* quote a text with a colon$/],
    ["a: @b", /line 1, column 4: must be YAML: .*; write the text in quotes/],
  ])("%j", ([text, message]) => {
    expect(() => tree(text)).toThrow(message);
  });
});

describe("hostile files end soon", () => {
  const bomb = `a: &a [x, x]\n${Array.from(
    { length: 30 },
    (_, place) => `b${place}: &b${place} [*${place === 0 ? "a" : `b${place - 1}`}]`,
  ).join("\n")}`;
  test.for<[string, string, RegExp]>([
    ["aliases of aliases", bomb, /is an alias/],
    ["deep lists", "[".repeat(200_000), /line 1, column 41: must have at most 40 levels/],
    ["deep closed lists", `${"[".repeat(50_000)}${"]".repeat(50_000)}`, /levels/],
    ["deep maps", `a: ${"{a: ".repeat(20_000)}1${"}".repeat(20_000)}`, /levels/],
    [
      "deep blocks",
      Array.from({ length: 300 }, (_, at) => `${" ".repeat(at)}a:`).join("\n"),
      /levels/,
    ],
    ["lists in a line", "- ".repeat(100_000), /levels/],
    ["keys in a line", "? ".repeat(100_000), /levels/],
    ["many equal keys", "k: 1\n".repeat(40_000), /set twice/],
  ])("%s", { timeout: 5000 }, ([, text, message]) => {
    expect(() => tree(text)).toThrow(message);
  });

  test("many keys take no time that grows with their square", { timeout: 5000 }, () => {
    const text = Array.from({ length: 20_000 }, (_, place) => `k${place}: 1`).join("\n");
    const top = tree(text);
    expect(top.kind === "map" && top.entries.size).toBe(20_000);
  });

  test("__proto__ is a key as any other", () => {
    const value = plainValue(tree("__proto__:\n  polluted: true"));
    expect(Reflect.get({}, "polluted")).toBeUndefined();
    expect(Object.keys(value as object)).toEqual(["__proto__"]);
  });
});
