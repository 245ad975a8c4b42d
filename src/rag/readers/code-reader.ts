/** Source code: a section for each function, class or method, with the comments above it. */
import { extname } from "node:path/posix";
import type { SyntaxNode } from "@lezer/common";
import { CODE_LANGUAGES } from "./code-languages.ts";
import type { FileContent, Reader } from "./reader.ts";
import { SectionList, shortHeading } from "./section-list.ts";
import { decodeText } from "./text-bytes.ts";
import { encodingAttributes } from "./text-reader.ts";

/** Files that are longer, have longer lines or nest deeper are text without a structure. */
const PARSED_LENGTH_MAX = 2 ** 21;
const LINE_LENGTH_MAX = 20_000;
const NESTING_MAX = 500;
/** Declarations of together at most this length stay in one section. */
const JOINED_LENGTH_MAX = 800;
/** Classes of more are split into their members. */
const WHOLE_LENGTH_MAX = 1200;
const DEPTH_MAX = 8;

/** Kinds of nodes by the start of their names in the grammars, which call equal things alike. */
const kinds = (starts: string) => new RegExp(`^(${starts.replaceAll(" ", "|")})`);
/** Declarations that have a name; those of the second list are split into members. */
const NAMED = kinds(
  "Function Method Constructor Class Interface Enum Namespace Struct Union Impl Mod Trait Record " +
    "TypeAlias TypeDecl Variable Const Static Macro",
);
const SPLIT = kinds("Class Interface Enum Namespace Impl Mod Trait Struct Record Linkage");
/** What stands around a declaration. */
const WRAPPER = kinds("Export Decorated Template");
const BODY = kinds(
  "ClassBody$ InterfaceBody$ EnumBody$ Body$ DeclarationList$ FieldDeclarationList$ " +
    "CompoundStatement$ Block$",
);
const NAME = kinds(
  "VariableDefinition$ TypeDefinition$ PropertyDefinition$ PrivatePropertyDefinition$ " +
    "Definition$ DefName$ FieldName$ BoundIdentifier$ Identifier$ ScopedIdentifier$ " +
    "FieldIdentifier$ TypeIdentifier$ VariableName$",
);

/** Reads the languages of `CODE_LANGUAGES`; broken code, too. Headings are enclosing names. */
export const codeReader: Reader = {
  name: "code",
  endings: CODE_LANGUAGES.flatMap(({ endings }) => endings),
  async *read(file: FileContent) {
    const decoded = decodeText(file.bytes, file.id);
    const { text } = decoded;
    const ending = extname(file.id).toLowerCase();
    const language = CODE_LANGUAGES.find(({ endings }) => endings.includes(ending));
    const list = new SectionList(text);
    if (language === undefined || !isOrdinary(text)) list.add(0, text.length, []);
    else {
      const tree = (await language.parser()).parse(text);
      new Outline(text, list).addMembers(tree.topNode, { from: 0, to: text.length, path: [] });
    }
    const attributes = {
      ...encodingAttributes(decoded),
      ...(language !== undefined && { language: language.name }),
    };
    yield { id: file.id, hash: file.hash, sections: list.sections, attributes };
  },
};

/** Whether code may have been written by hand: a parser takes long for what was not. */
function isOrdinary(text: string): boolean {
  if (text.length > PARSED_LENGTH_MAX) return false;
  let lineStart = 0;
  let depth = 0;
  for (let at = 0; at < text.length; at++) {
    const code = text.charCodeAt(at);
    if (code === 10) lineStart = at + 1;
    if (code === 40 || code === 91 || code === 123) depth++;
    else if ((code === 41 || code === 93 || code === 125) && depth > 0) depth--;
    if (depth > NESTING_MAX || at - lineStart > LINE_LENGTH_MAX) return false;
  }
  return true;
}

/** Part of the text with what encloses it. */
interface Range {
  readonly from: number;
  readonly to: number;
  readonly path: readonly string[];
}

/** A declaration, or statements between two of them. */
interface Unit {
  readonly from: number;
  /** Null: it has no name. */
  readonly name: string | null;
  /** What it is split at, if it is long; null: it stays whole. */
  readonly body: SyntaxNode | null;
}

/** Makes sections that cover all of a text, in order. */
class Outline {
  readonly #text: string;
  readonly #list: SectionList;

  constructor(text: string, list: SectionList) {
    this.#text = text;
    this.#list = list;
  }

  /** Adds a range whose declarations are children of a node. */
  addMembers(parent: SyntaxNode, { from, to, path }: Range): void {
    const units = this.#unitsOf(parent, from, to);
    let run: Unit[] = [];
    const endRun = (end: number) => {
      const [first] = run;
      if (first === undefined) return;
      const isNamed = run.length === 1 && first.name !== null;
      this.#list.add(first.from, end, isNamed ? [...path, first.name ?? ""] : path);
      run = [];
    };
    for (const [index, unit] of units.entries()) {
      const end = units[index + 1]?.from ?? to;
      const isSplit = unit.body !== null && end - unit.from > WHOLE_LENGTH_MAX;
      if (isSplit || end - (run[0]?.from ?? end) > JOINED_LENGTH_MAX) endRun(unit.from);
      if (isSplit && unit.body !== null && path.length < DEPTH_MAX) {
        const inner = unit.name === null ? path : [...path, unit.name];
        this.addMembers(unit.body, { from: unit.from, to: end, path: inner });
      } else run.push(unit);
    }
    endRun(to);
  }

  /** Units that cover a range, each up to the next one. */
  #unitsOf(parent: SyntaxNode, from: number, to: number): Unit[] {
    const units: Unit[] = [{ from, name: null, body: null }];
    // Comments belong to the declaration below them.
    let comment: number | null = null;
    for (let node = parent.firstChild; node !== null; node = node.nextSibling) {
      if (/Comment$/.test(node.name)) {
        comment ??= node.from;
        continue;
      }
      const inner = this.#unwrapped(node);
      if (NAMED.test(inner.name)) {
        const start = this.#lineStart(comment ?? node.from, units.at(-1)?.from ?? from);
        const body = SPLIT.test(inner.name) ? childOf(inner, BODY) : null;
        const unit = { from: start, name: this.#nameOf(inner), body };
        // Nothing stands between two declarations on one line.
        if (start > (units.at(-1)?.from ?? -1)) units.push(unit);
        else units[units.length - 1] = unit;
        units.push({ from: this.#lineEnd(node.to, to), name: null, body: null });
      }
      comment = null;
    }
    return units.filter((unit, at) => {
      const rest = this.#text.slice(unit.from, units[at + 1]?.from ?? to);
      // A closing brace belongs to what it closes: to the unit before.
      const isUnit = at === 0 ? /\S/.test(rest) : /[\p{L}\p{N}_]/u.test(rest);
      return unit.name !== null || isUnit;
    });
  }

  #unwrapped(node: SyntaxNode): SyntaxNode {
    if (!WRAPPER.test(node.name)) return node;
    const inner = childOf(node, NAMED) ?? childOf(node, WRAPPER);
    return inner === null ? node : WRAPPER.test(inner.name) ? this.#unwrapped(inner) : inner;
  }

  #lineStart(place: number, least: number): number {
    let start = place;
    while (start > least && /[ \t]/.test(this.#text[start - 1] ?? "")) start--;
    return start;
  }

  /** The next line's start where white space alone is before it; else the place itself. */
  #lineEnd(place: number, most: number): number {
    let end = place;
    while (end < most && /[ \t\r]/.test(this.#text[end] ?? "")) end++;
    return this.#text[end] === "\n" && end < most ? end + 1 : place;
  }

  #nameOf(node: SyntaxNode): string | null {
    if (/^Impl/.test(node.name)) {
      const end = childOf(node, BODY)?.from ?? node.to;
      return shortHeading(this.#text.slice(node.from, Math.min(end, node.from + 400)));
    }
    const declarator = nestedChild(node, /^FunctionDeclarator$/, 3) ?? node;
    const name = nestedChild(declarator, NAME, 3);
    return name === null ? null : shortHeading(this.#text.slice(name.from, name.to));
  }
}

function childOf(node: SyntaxNode, kind: RegExp): SyntaxNode | null {
  for (let child = node.firstChild; child !== null; child = child.nextSibling) {
    if (kind.test(child.name)) return child;
  }
  return null;
}

/** The first node of a kind within some levels, the outermost first; not within bodies. */
function nestedChild(node: SyntaxNode, kind: RegExp, levels: number): SyntaxNode | null {
  const own = childOf(node, kind);
  if (own !== null || levels === 1) return own;
  for (let child = node.firstChild; child !== null; child = child.nextSibling) {
    if (BODY.test(child.name) || /Param|Arg|Modifiers|Decorator/.test(child.name)) continue;
    const found = nestedChild(child, kind, levels - 1);
    if (found !== null) return found;
  }
  return null;
}
