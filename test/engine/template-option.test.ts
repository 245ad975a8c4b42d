import { describe, expect, test } from "vitest";
import { readTemplateOption } from "../../src/engine/caller/template-option.ts";

describe("the option chatTemplate", () => {
  test("is a template where it has markup", () => {
    const text = "{% for message in messages %}{{ message.content }}{% endfor %}";
    expect(readTemplateOption(text)).toBe(text);
  });

  test("is a file's content where it names one", () => {
    expect(readTemplateOption("package.json")).toContain('"name": "perigee"');
  });

  test.for([
    ["typo.jinja", "typo.jinja"],
    ["", '""'],
    ["src", "folder"],
    ["no such name", "no file"],
    ["a\0b", "no file"],
    ["x".repeat(10_000), "x…"],
  ])("%j is refused by name", ([option = "", named = ""]) => {
    expect(() => readTemplateOption(option)).toThrow(/^Cannot use chatTemplate: must be a file/);
    expect(() => readTemplateOption(option)).toThrow(named);
  });
});
