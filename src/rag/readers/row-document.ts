/** Rows of a file become documents. */
import { createHash } from "node:crypto";
import type { Attributes, SourceDocument } from "#rag/texts";
import { shortHeading } from "./section-list.ts";

/** A row, as its format understands it. */
export interface Row {
  readonly fields: Readonly<Record<string, unknown>>;
  /** As it stands in the file: its hash is the document's. */
  readonly source: string;
  readonly firstLine: number;
  readonly lastLine: number;
}

/** Fields that hold a row's text, and its name; the first one that is there counts. */
const TEXTS = ["text", "content", "body", "page_content"];
const NAMES = ["id", "_id"];
/** Longest value that is an attribute, in UTF-16 units, and most attributes of a row. */
const ATTRIBUTE_LENGTH_MAX = 256;
const ATTRIBUTES_MAX = 32;

/** Names rows: by their own name, or by their content, so that rows before do not matter. */
export class RowNames {
  readonly #fileId: string;
  readonly #taken = new Map<string, number>();

  constructor(fileId: string) {
    this.#fileId = fileId;
  }

  /** The name of a row's document; of rows that would have the same one, each has its own. */
  nameOf({ fields }: Row, hash: string): string {
    const own = NAMES.map((name) => fields[name]).find(
      (value) => (typeof value === "string" && value !== "") || typeof value === "number",
    );
    const name = own === undefined ? hash.slice(0, 16) : String(own).slice(0, 200).toWellFormed();
    const count = (this.#taken.get(name) ?? 0) + 1;
    this.#taken.set(name, count);
    // The last `#` of a document's name is before a row's own.
    const unique = `${name.replaceAll("#", "%23")}${count > 1 ? `~${count}` : ""}`;
    return `${this.#fileId}#${unique}`;
  }
}

/**
 * A row's document. Its text is a field of that name, with a title above it as heading, and lines
 * `name: value` of what is neither text nor an attribute; without such a field lines of all.
 * Attributes are its short strings, numbers and booleans.
 */
export function rowDocument(row: Row, names: RowNames): SourceDocument {
  const hash = createHash("sha256").update(row.source).digest("hex");
  const { fields, firstLine, lastLine } = row;
  const entries = Object.entries(fields).filter(([, value]) => value !== null && value !== "");
  const textName = TEXTS.find((name) => typeof fields[name] === "string" && fields[name] !== "");
  const attributes = attributesOf(entries.filter(([name]) => name !== textName));
  const title = textName !== undefined && typeof fields.title === "string" ? fields.title : "";
  const lines = entries
    .filter(([name]) => name !== textName)
    .filter(([name]) => textName === undefined || !Object.hasOwn(attributes, name))
    .map(
      ([name, value]) => `${name}: ${typeof value === "string" ? value : JSON.stringify(value)}`,
    );
  const text = [...(textName === undefined ? [] : [String(fields[textName])]), ...lines].join("\n");
  const headings = title === "" ? [] : [shortHeading(title)];
  const section = { text, line: firstLine, lastLine, page: null, headings };
  const sections = text.trim() === "" ? [] : [section];
  return { id: names.nameOf(row, hash), hash, sections, attributes };
}

function attributesOf(entries: readonly (readonly [string, unknown])[]): Attributes {
  const found = entries.filter(
    ([name, value]) => /^[\w-]{1,64}$/.test(name) && isAttribute(value),
  ) as [string, string | number | boolean][]; // by isAttribute
  return Object.fromEntries(found.slice(0, ATTRIBUTES_MAX));
}

function isAttribute(value: unknown): boolean {
  if (typeof value === "string") return value.length <= ATTRIBUTE_LENGTH_MAX;
  return typeof value === "boolean" || Number.isFinite(value);
}
