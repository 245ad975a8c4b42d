import { expect, test } from "vitest";
import { ChatTemplate } from "#tokenizer";
// Not at the tokenizer's front door: threads use it.
import { TemplateCache } from "../../src/tokenizer/template-cache.ts";

function openCache() {
  const parsed: string[] = [];
  const cache = new TemplateCache((source) => {
    parsed.push(source);
    return new ChatTemplate(source);
  });
  return { cache, parsed };
}

test("a template that comes again is not parsed again", () => {
  const { cache, parsed } = openCache();
  expect(cache.get("{{ a }}")).toBe(cache.get("{{ a }}"));
  expect(parsed).toHaveLength(1);
});

test("many tiny templates, all of them different, take a bounded memory", () => {
  const { cache } = openCache();
  for (let i = 0; i < 5_000; i++) cache.get(`{{ a${i} }}`);
  expect(cache.size).toBeLessThan(256);
});

test("large ones push others out, the one that was used longest ago first", () => {
  const { cache, parsed } = openCache();
  const large = (name: string) => `{# ${name.repeat(100_000)} #}`;
  for (const name of ["a", "b", "a", "c"]) cache.get(large(name));
  expect(cache.size).toBe(2);
  cache.get(large("a"));
  expect(parsed).toHaveLength(3);
  // One that is larger than all that is kept is used, and not kept.
  cache.get(large("abcd"));
  expect(cache.size).toBe(0);
});

test("a template that cannot be parsed is not counted", () => {
  const { cache } = openCache();
  for (let i = 0; i < 1_000; i++) expect(() => cache.get(`{% if ${i}`)).toThrow("template");
  cache.get("{{ a }}");
  expect(cache.size).toBe(1);
});
