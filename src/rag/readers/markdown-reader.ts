/** Markdown: a section below each heading. Headings in lists and quotes are text. */
import { parser } from "@lezer/markdown";
import type { FileContent, Reader } from "./reader.ts";
import { HEADING_LENGTH_MAX, SectionList, shortHeading } from "./section-list.ts";
import { decodeText } from "./text-bytes.ts";
import { encodingAttributes } from "./text-reader.ts";

/** Blocks alone: what stands within a line is text. */
const blockParser = parser.configure({
  remove: [
    ...["Escape", "Entity", "InlineCode", "HTMLTag", "Emphasis", "HardBreak"],
    ...["Link", "Image", "LinkEnd"],
  ],
});

interface Heading {
  readonly from: number;
  readonly to: number;
  readonly level: number;
  readonly title: string;
}

/** Reads Markdown of CommonMark; metadata in YAML at the top is a section of its own. */
export const markdownReader: Reader = {
  name: "markdown",
  endings: [".md", ".markdown", ".mdx"],
  async *read(file: FileContent) {
    const decoded = decodeText(file.bytes, file.id);
    const sections = sectionsOf(decoded.text);
    yield { id: file.id, hash: file.hash, sections, attributes: encodingAttributes(decoded) };
  },
};

function sectionsOf(text: string): SectionList["sections"] {
  const list = new SectionList(text);
  const start = metadataEnd(text);
  list.add(0, start, []);
  const headings = headingsOf(text, start);
  list.add(start, headings[0]?.from ?? text.length, []);
  const path: Heading[] = [];
  for (const [index, heading] of headings.entries()) {
    const next = headings[index + 1];
    const end = next?.from ?? text.length;
    while ((path.at(-1)?.level ?? 0) >= heading.level) path.pop();
    const above = path.map(({ title }) => shortHeading(title));
    path.push(heading);
    // Its line is text where nothing else would carry it whole.
    const isText =
      heading.title.length > HEADING_LENGTH_MAX || hasNothingBelow(text, heading, next);
    if (isText) list.add(heading.from, end, above);
    else list.add(heading.to, end, [...above, shortHeading(heading.title)]);
  }
  return list.sections;
}

function hasNothingBelow(text: string, heading: Heading, next: Heading | undefined): boolean {
  if (next !== undefined && next.level > heading.level) return false;
  return text.slice(heading.to, next?.from).trim() === "";
}

/** The end of metadata between two lines of `---` at the top; 0: there is none. */
function metadataEnd(text: string): number {
  if (!/^---\r?\n/.test(text)) return 0;
  const end = /\n(---|\.\.\.)[ \t]*(\r?\n|$)/.exec(text);
  return end === null ? 0 : end.index + end[0].length;
}

function headingsOf(text: string, start: number): Heading[] {
  const headings: Heading[] = [];
  const body = text.slice(start);
  const tree = blockParser.parse(body);
  for (let node = tree.topNode.firstChild; node !== null; node = node.nextSibling) {
    const [, kind, level] = /^(ATX|Setext)Heading(\d)$/.exec(node.name) ?? [];
    if (level === undefined) continue;
    const raw = body.slice(node.from, node.to);
    const title = kind === "ATX" ? atxTitle(raw) : raw.slice(0, raw.lastIndexOf("\n")).trim();
    headings.push({ from: start + node.from, to: start + node.to, level: Number(level), title });
  }
  return headings;
}

function atxTitle(raw: string): string {
  return raw
    .trim()
    .replace(/^#+[ \t]*/, "")
    .replace(/(^|[ \t]+)#+$/, "");
}
