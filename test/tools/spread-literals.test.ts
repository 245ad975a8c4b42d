import { existsSync, readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { parse } from "acorn";
import { expect, test } from "vitest";
import { spreadStarts, withoutSpreadStarts } from "../../tools/spread-literals.mjs";

const changed = (text: string) => withoutSpreadStarts(text, parse);

test("a literal that begins with a spread and goes on begins with nothing else", () => {
  expect(changed("f({ ...a, b }, { ...{ ...c, d: 1 } });")).toBe(
    "f({ ...null, ...a, b }, { ...{ ...null, ...c, d: 1 } });",
  );
  expect(changed("x = {\n  ...a,\n  ...b,\n};")).toBe("x = {\n  ...null, ...a,\n  ...b,\n};");
});

test.each([
  "({ ...a });",
  "({ b, ...a });",
  "const { ...rest } = a; const { b, ...others } = a;",
  "const f = ({ ...a }, ...b) => [...a, ...b];",
  "g(...a, { b }); // { ...a, b }",
  // biome-ignore lint/suspicious/noTemplateCurlyInString: the text of a program.
  'const s = "{ ...a, b }" + `${1} { ...a, b }`;',
  "({ ...null, ...a, b });",
])("%s stays as it is", (text) => {
  expect(changed(text)).toBe(text);
});

test("what is changed means the same, and is changed once", () => {
  const program = `({
    ...[1, 2], ...null, ...undefined, x: 1,
    nested: { ...{ a: 1, b: 2 }, a: 3, c: 4 },
    proto: { ...JSON.parse('{"__proto__": 5, "k": 6}'), l: 7 },
    got: { ...{ get value() { return 8; } }, more: 9 },
  })`;
  const run = (text: string) => new Function(`return ${text}`)() as Record<string, object>;
  const twice = changed(changed(program));
  expect(twice).toBe(changed(program));
  expect(twice).not.toBe(program);
  const [before, after] = [run(program), run(twice)];
  expect(JSON.stringify(after)).toBe(JSON.stringify(before));
  expect(Object.keys(after.nested ?? {})).toEqual(["a", "b", "c"]);
  expect(Object.getOwnPropertyDescriptor(after.proto, "__proto__")?.value).toBe(5);
  expect(Object.getPrototypeOf(after.proto)).toBe(Object.prototype);
  expect(Object.getOwnPropertyDescriptor(after.got, "value")?.value).toBe(8);
});

const DIST = "dist/cluster";

test.runIf(existsSync(DIST))("what is built has no such literal", () => {
  const files = readdirSync(DIST, { recursive: true, encoding: "utf8" });
  const found = files
    .filter((file) => file.endsWith(".js"))
    .filter((file) => spreadStarts(readFileSync(join(DIST, file), "utf8"), parse).length > 0);
  expect(found).toEqual([]);
  expect(files.length).toBeGreaterThan(100);
});
