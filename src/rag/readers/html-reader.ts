/** HTML: what a page shows, with a section below each heading. */
import { Parser } from "htmlparser2";
import type { Attributes, Section } from "#rag/texts";
import type { FileContent, Reader } from "./reader.ts";
import { HEADING_LENGTH_MAX, shortHeading } from "./section-list.ts";
import { decodeText } from "./text-bytes.ts";
import { encodingAttributes } from "./text-reader.ts";

/** Elements whose content is not shown. */
const HIDDEN = new Set(["script", "style", "noscript", "template", "svg", "math", "iframe"]);
/** Elements that stand on lines of their own; the rest stands within a line. */
const BLOCKS = new Set(
  (
    "address article aside blockquote body caption center dd details dialog dir div dl dt " +
    "fieldset figcaption figure footer form header hgroup hr html legend li main menu nav ol " +
    "optgroup option p pre search section select summary table tbody textarea tfoot thead tr ul"
  ).split(" "),
);
/** Blocks with an empty line around them. */
const PARAGRAPHS = new Set([
  "p",
  "pre",
  "blockquote",
  "table",
  "ul",
  "ol",
  "dl",
  "article",
  "section",
]);

/**
 * Reads HTML of any quality. Places have headings and no lines, since the text is not the file's.
 * The title is the attribute `title`.
 */
export const htmlReader: Reader = {
  name: "html",
  endings: [".html", ".htm", ".xhtml"],
  async *read(file: FileContent) {
    const decoded = decodeText(declared(file.bytes), file.id);
    const page = new Page();
    const parser = new Parser(page, { decodeEntities: true, lowerCaseTags: true });
    // In parts, so that a long page does not hold its whole text twice.
    for (let at = 0; at < decoded.text.length; at += 2 ** 16) {
      parser.write(decoded.text.slice(at, at + 2 ** 16));
    }
    parser.end();
    const { sections, title } = page.end();
    const attributes: Attributes = { ...encodingAttributes(decoded), ...(title && { title }) };
    yield { id: file.id, hash: file.hash, sections, attributes };
  },
};

/** Bytes in UTF-8 where the page declares another encoding. */
function declared(bytes: Uint8Array): Uint8Array {
  const start = Buffer.from(bytes.subarray(0, 1024)).toString("latin1");
  const name = /<meta[^>]+charset\s*=\s*["']?([\w-]+)/i.exec(start)?.[1]?.toLowerCase();
  // These are told apart by their bytes.
  if (name === undefined || /^(utf-?8|utf-?16|iso-8859-1|windows-1252|latin1)/.test(name))
    return bytes;
  try {
    return new TextEncoder().encode(new TextDecoder(name).decode(bytes));
  } catch {
    return bytes; // An unknown name says nothing.
  }
}

/** Collects a page's text from the parser's calls. */
class Page {
  readonly #sections: Section[] = [];
  readonly #path: { readonly level: number; readonly title: string }[] = [];
  #text: string[] = [];
  /** Open elements that hide, keep white space, or are a heading. */
  #hidden = 0;
  #kept = 0;
  #heading: { readonly level: number; text: string } | null = null;
  /** The title while it is open, and afterwards. */
  #title: string | null = null;
  #isTitle = false;
  /** White space that comes before the next word. */
  #gap = "";
  /** Whether the innermost heading has text below it, or another heading. */
  #hasText = true;

  onopentag(name: string, attributes: Readonly<Record<string, string>>): void {
    if (HIDDEN.has(name)) this.#hidden++;
    else if (name === "title" && this.#title === null) this.#isTitle = true;
    else if (/^h[1-6]$/.test(name)) this.#openHeading(Number(name[1]));
    else if (name === "br") this.#space("\n");
    else if (name === "img") this.#add(attributes.alt ?? "");
    else if (name === "td" || name === "th") this.#cell();
    else if (BLOCKS.has(name)) this.#space(PARAGRAPHS.has(name) ? "\n\n" : "\n");
    if (name === "pre" || name === "textarea") this.#kept++;
    if (name === "li") this.#add("- ");
  }

  onclosetag(name: string): void {
    if (HIDDEN.has(name)) this.#hidden--;
    else if (name === "title") this.#isTitle = false;
    else if (/^h[1-6]$/.test(name)) this.#closeHeading();
    else if (BLOCKS.has(name)) this.#space(PARAGRAPHS.has(name) ? "\n\n" : "\n");
    if (name === "pre" || name === "textarea") this.#kept--;
  }

  ontext(text: string): void {
    if (this.#isTitle) this.#title = (this.#title ?? "") + text;
    else this.#add(text);
  }

  end(): { readonly sections: Section[]; readonly title: string } {
    this.#closeHeading();
    this.#flush();
    while (this.#path.length > 0) this.#dropHeading();
    return { sections: this.#sections, title: shortHeading(this.#title ?? "") };
  }

  #openHeading(level: number): void {
    this.#closeHeading();
    this.#flush();
    this.#heading = { level, text: "" };
  }

  /** A heading counts from its end; one of any length is text below itself. */
  #closeHeading(): void {
    if (this.#heading === null) return;
    const { level, text } = this.#heading;
    this.#heading = null;
    const title = text.trim();
    if (title === "") return;
    while ((this.#path.at(-1)?.level ?? 0) >= level) this.#dropHeading();
    this.#path.push({ level, title });
    if (title.length > HEADING_LENGTH_MAX) this.#text.push(title, "\n\n");
    this.#hasText = title.length > HEADING_LENGTH_MAX;
  }

  /** A heading without anything below it is text. */
  #dropHeading(): void {
    const heading = this.#path.pop();
    if (heading === undefined || this.#hasText) return;
    this.#hasText = true;
    const headings = this.#path.map(({ title }) => shortHeading(title));
    this.#sections.push({ text: heading.title, line: null, page: null, headings });
  }

  #cell(): void {
    if (this.#text.at(-1)?.endsWith("\n") === false && !this.#gap.includes("\n"))
      this.#space(" | ");
  }

  #space(gap: string): void {
    if (this.#hidden > 0) return;
    if (gap.length > this.#gap.length || !this.#gap.includes("\n")) this.#gap = gap;
  }

  #add(text: string): void {
    if (this.#hidden > 0 || text === "") return;
    if (this.#heading !== null) {
      this.#heading.text += text;
      return;
    }
    if (this.#kept > 0) {
      this.#text.push(this.#takeGap(), text);
      return;
    }
    const words = text.replace(/[ \t\n\r\f]+/g, " ");
    if (words.startsWith(" ")) this.#wordGap();
    if (words === " ") return;
    this.#text.push(this.#takeGap(), words.replace(/^ | $/g, ""));
    if (words.endsWith(" ")) this.#wordGap();
  }

  #wordGap(): void {
    if (this.#gap === "") this.#gap = " ";
  }

  #takeGap(): string {
    const gap = this.#text.length === 0 ? "" : this.#gap;
    this.#gap = "";
    return gap;
  }

  #flush(): void {
    const text = this.#text.join("");
    this.#text = [];
    this.#gap = "";
    if (text.trim() === "") return;
    this.#hasText = true;
    const headings = this.#path.map(({ title }) => shortHeading(title));
    this.#sections.push({ text, line: null, page: null, headings });
  }
}
