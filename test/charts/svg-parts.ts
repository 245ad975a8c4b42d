/** What a picture is made of, read without a DOM. */
import { Parser } from "htmlparser2";
import { expect } from "vitest";

export interface SvgParts {
  /** Names of elements, and of their attributes behind an @. */
  readonly names: ReadonlySet<string>;
  /** The text of each element, in order, but for styles. */
  readonly texts: readonly string[];
  readonly titles: readonly string[];
}

/** Elements and attributes that pictures may have: none of them runs or fetches anything. */
const ALLOWED = new Set([
  ...["svg", "title", "desc", "style", "g", "rect", "path", "text"],
  ...["@xmlns", "@class", "@role", "@viewBox", "@width", "@height", "@aria-labelledby", "@id"],
  ...["@x", "@y", "@rx", "@d", "@transform", "@text-anchor"],
]);

/**
 * Reads a picture, and expects that it is well-formed, fetches nothing, and has no element and no
 * attribute beyond those that charts are made of.
 */
export function partsOf(svg: string): SvgParts {
  expectWellFormed(svg);
  const names = new Set<string>();
  const texts: string[] = [];
  const titles: string[] = [];
  const open: { name: string; text: string }[] = [];
  const parser = new Parser(
    {
      onopentag: (name, attributes) => {
        names.add(name);
        for (const key of Object.keys(attributes)) names.add(`@${key}`);
        open.push({ name, text: "" });
      },
      ontext: (text) => {
        const top = open.at(-1);
        if (top !== undefined) top.text += text;
      },
      onclosetag: () => {
        const { name, text } = open.pop() ?? { name: "", text: "" };
        if (name === "text") texts.push(text);
        if (name === "title") titles.push(text);
      },
    },
    { xmlMode: true, decodeEntities: true },
  );
  parser.end(svg);
  expect([...names].filter((name) => !ALLOWED.has(name))).toEqual([]);
  expect(svg.replaceAll("http://www.w3.org/2000/svg", "")).not.toMatch(/href|url\(|@import/);
  return { names, texts, titles };
}

/** Every tag is closed in its order, and no sign of markup stands in a text. */
function expectWellFormed(svg: string): void {
  const open: string[] = [];
  const tag = /<(\/?)([a-z]+)((?: [a-zA-Z-]+="[^"<&]*")*)(\/?)>/g;
  const rest = svg.replace(tag, (_, closing: string, name: string, __, single: string) => {
    if (closing !== "") expect(open.pop()).toBe(name);
    else if (single === "") open.push(name);
    return "";
  });
  expect(open).toEqual([]);
  expect(rest.replace(/&(amp|lt|gt|quot|#39);/g, "")).not.toMatch(/[<>&]/);
  // biome-ignore lint/suspicious/noControlCharactersInRegex: these are what XML does not allow.
  expect(svg).not.toMatch(/[\u0000-\u0008\u000b-\u001f\u007f\ufffe\uffff]/);
}
