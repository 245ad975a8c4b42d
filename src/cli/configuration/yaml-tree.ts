/**
 * A YAML file of settings as a tree whose nodes know their place. What settings do not need is
 * refused, so that a file of any content costs little: aliases, tags, several documents.
 */
import {
  CST,
  isAlias,
  isMap,
  isScalar,
  isSeq,
  Lexer,
  LineCounter,
  type Node,
  parseDocument,
} from "yaml";
import { type Place, readSettingsText, refusal } from "./settings-text.ts";

export type YamlNode =
  /** `text` is how the file writes it. */
  | {
      readonly kind: "scalar";
      readonly value: string | number | boolean | null;
      readonly text: string;
      readonly place: Place;
    }
  | { readonly kind: "list"; readonly items: readonly YamlNode[]; readonly place: Place }
  | { readonly kind: "map"; readonly entries: YamlEntries; readonly place: Place };

/** Values by key, each with the place of its key. */
export type YamlEntries = ReadonlyMap<string, { readonly place: Place; readonly node: YamlNode }>;

/** A JSON schema as a setting's value is the deepest. */
const LEVELS_MAX = 40;

/** A file's tree. Throws IO where it cannot be read, INVALID_ARGUMENT with the line otherwise. */
export function readYamlFile(file: string): YamlNode {
  return yamlTree(readSettingsText(file), file);
}

/** The tree of a text, which errors call `file`. Throws INVALID_ARGUMENT with the line. */
export function yamlTree(text: string, file: string): YamlNode {
  checkDepth(text, file);
  const lines = new LineCounter();
  const placeOf = (offset: number): Place => {
    const { line, col } = lines.linePos(offset);
    return { line, column: col };
  };
  const document = parsed(text, lines);
  const [problem] = [...document.errors, ...document.warnings];
  if (problem !== undefined) {
    const [message = ""] = problem.message.split("\n");
    throw refusal(file, placeOf(problem.pos[0]), yamlProblem(message));
  }
  const top = document.contents;
  if (top === null) return { kind: "map", entries: new Map(), place: { line: 1, column: 1 } };
  return new TreeBuilder(file, placeOf).build(top, 1);
}

function parsed(text: string, lineCounter: LineCounter) {
  return parseDocument(text, {
    lineCounter,
    // Keys are compared when the tree is built: the parser compares each with each.
    uniqueKeys: false,
    merge: false,
    prettyErrors: false,
    logLevel: "error",
  });
}

/** Beyond it, maps and lists of lines with more and more spaces are too deep for certain. */
const INDENT_MAX = 8 * LEVELS_MAX;

/** Refuses what the parser, which calls itself for each level, could overflow the stack with. */
function checkDepth(text: string, file: string): void {
  let brackets = 0;
  let place: Place = { line: 1, column: 1 };
  let isIndent = true;
  for (const token of new Lexer().lex(text)) {
    const type = CST.tokenType(token) ?? "scalar";
    if (/^flow-.*-start$/.test(type)) brackets++;
    else if (/^flow-(seq|map)-end$/.test(type)) brackets--;
    // A list's dash and a map's colon may stand before another list.
    isIndent = place.column === 1 || (isIndent && !/scalar|flow/.test(type));
    const isDeep = brackets > LEVELS_MAX || (isIndent && place.column > INDENT_MAX);
    if (isDeep) throw refusal(file, place, tooDeep);
    place = after(token, place);
  }
}

/** Tokens that are no text: of a document, a broken bracket, a scalar, a byte order mark. */
const LEXER_MARKS = new Set([CST.DOCUMENT, CST.FLOW_END, CST.SCALAR, CST.BOM]);

/** The place behind a token of the lexer, some of which are no text of the file. */
function after(token: string, { line, column }: Place): Place {
  if (LEXER_MARKS.has(token)) return { line, column };
  const lines = token.split("\n");
  const rest = lines.at(-1)?.length ?? 0;
  return { line: line + lines.length - 1, column: (lines.length > 1 ? 1 : column) + rest };
}

const tooDeep = `must have at most ${LEVELS_MAX} levels, current value is more`;

/** What to do about a message of the parser that matches. */
const REMEDIES: readonly (readonly [RegExp, string])[] = [
  [/tab/i, "indent with spaces"],
  [/Unresolved tag/, "settings need no tags, remove it"],
  [
    /nested mappings|implicit keys/i,
    "put each key on a line of its own, with a colon and a space; quote a text with a colon",
  ],
  [/end with a|Missing closing/i, "close it"],
  [/same column|indented/, "indent the keys of one section alike"],
  [/cannot start with/, "write the text in quotes"],
];

/** The parser's messages, in our words where they lack the remedy. */
function yamlProblem(message: string): string {
  if (/multiple documents/.test(message)) {
    return "must be one document; remove the line --- in the middle";
  }
  const [, remedy] = REMEDIES.find(([pattern]) => pattern.test(message)) ?? [];
  const problem = `must be YAML: ${lower(message)}`;
  return remedy === undefined ? problem : `${problem}; ${remedy}`;
}

function lower(message: string): string {
  return message.slice(0, 1).toLowerCase() + message.slice(1);
}

class TreeBuilder {
  readonly #file: string;
  readonly #placeOf: (offset: number) => Place;

  constructor(file: string, placeOf: (offset: number) => Place) {
    this.#file = file;
    this.#placeOf = placeOf;
  }

  build(node: Node, level: number): YamlNode {
    const place = this.#placeOf(node.range?.[0] ?? 0);
    if (level > LEVELS_MAX) throw refusal(this.#file, place, tooDeep);
    if (isAlias(node)) {
      throw refusal(this.#file, place, `*${node.source} is an alias; write the value itself`);
    }
    if (isScalar(node)) return this.#scalar(node.value, node.source, place);
    if (isSeq(node)) {
      const items = node.items.map((item) => this.build(item as Node, level + 1));
      return { kind: "list", items, place };
    }
    if (!isMap(node)) throw refusal(this.#file, place, "must be a map, a list or a value");
    return { kind: "map", entries: this.#entries(node.items, level), place };
  }

  #entries(
    items: readonly { readonly key: unknown; readonly value: unknown }[],
    level: number,
  ): YamlEntries {
    const entries = new Map<string, { readonly place: Place; readonly node: YamlNode }>();
    for (const { key, value } of items) {
      const keyNode = key as Node; // a parsed pair has a node for its key
      const place = this.#placeOf(keyNode.range?.[0] ?? 0);
      if (!isScalar(keyNode)) throw refusal(this.#file, place, "a key must be a name");
      const name = typeof keyNode.value === "string" ? keyNode.value : (keyNode.source ?? "");
      const earlier = entries.get(name);
      if (earlier !== undefined) {
        const where = `line ${earlier.place.line}`;
        throw refusal(this.#file, place, `${name} is set twice, before in ${where}; remove one`);
      }
      const node: YamlNode =
        value === null
          ? { kind: "scalar", value: null, text: "", place }
          : this.build(value as Node, level + 1);
      entries.set(name, { place, node });
    }
    return entries;
  }

  #scalar(value: unknown, source: string | undefined, place: Place): YamlNode {
    if (
      value === null ||
      typeof value === "string" ||
      typeof value === "boolean" ||
      (typeof value === "number" && Number.isFinite(value))
    ) {
      return { kind: "scalar", value, text: source ?? String(value), place };
    }
    const problem = `${source ?? "this"} is no text, number, true, false or null`;
    throw refusal(this.#file, place, problem);
  }
}

/** The node as plain JSON. */
export function plainValue(node: YamlNode): unknown {
  if (node.kind === "scalar") return node.value;
  if (node.kind === "list") return node.items.map(plainValue);
  return Object.fromEntries(
    [...node.entries].map(([name, { node: inner }]) => [name, plainValue(inner)]),
  );
}
