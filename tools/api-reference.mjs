// The API reference: a page of docs/api for each entry point of package.json, made from the
// declarations and docstrings of the build (dist/**/*.d.ts). tools/docs.mjs writes the pages.
//
// TypeScript prints declarations in one form: a statement begins at column 0, and its lines are
// indented up to the last. So they are read as text. typedoc 0.28 would need a second compiler,
// TypeScript 6, since TypeScript 7 has no API for it.
import { existsSync, readFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";

const ROOT = fileURLToPath(new URL("..", import.meta.url));
const REEXPORT = /^export (?:type )?(?:\*|\{([^}]*)\}) from "([^"]+)";$/;
const DECLARATION =
  /^export (?:declare )?(?:abstract )?(?:class|interface|type|function|const) (\w+)/;
const SCHEMA = /^export declare const \w+: z\./;
const KINDS = ["class", "function", "const", "interface", "type"];
const HEADINGS = {
  class: "Classes",
  function: "Functions",
  const: "Constants",
  interface: "Interfaces",
  type: "Types",
};

/**
 * A declared name: its docstring, and its declarations, several for an overload or a type beside a
 * constant.
 * @typedef {{ name: string, doc: string, declarations: string[] }} Entry
 */

/** @type {Map<string, { header: string, statements: { doc: string, text: string }[] }>} */
const parsed = new Map();

/** The statements of a declaration file, each with the docstring before it. */
function parse(path) {
  const known = parsed.get(path);
  if (known !== undefined) return known;
  const statements = [];
  let comment = [];
  let text = [];
  let header = "";
  for (const line of readFileSync(path, "utf8").split("\n")) {
    if (text.length === 0 && /^(\/\*\*| \*)/.test(line)) {
      if (line.startsWith("/**")) comment = [];
      comment.push(line);
      if (line.includes("@module")) header = "pending";
      if (line.endsWith("*/") && header === "pending") header = proseOf(comment.splice(0));
      continue;
    }
    if (text.length === 0 && line.trim() === "") continue;
    text.push(line);
    if (!isLast(line, text)) continue;
    statements.push({ doc: proseOf(comment), text: text.join("\n") });
    comment = [];
    text = [];
  }
  const file = { header, statements };
  parsed.set(path, file);
  return file;
}

/** Unions have a brace at the end of a member, and end with a semicolon. */
const isLast = (line, [first]) =>
  /^export (declare )?type /.test(first)
    ? /^( ?[^ *].*)?;$/.test(line)
    : /^([^ ].*)?[;}]$/.test(line);

/** A comment's text without its frame. */
function proseOf(lines) {
  const inner = lines
    .join("\n")
    .replace(/^\/\*\*/, "")
    .replace(/\*\/$/, "");
  return inner
    .split("\n")
    .map((line) => line.replace(/^ \* ?/, "").trimEnd())
    .join("\n")
    .trim();
}

/** The declaration file that an import from `path` means; null outside of the package. */
function resolve(path, target) {
  if (target.startsWith("#")) {
    const root = path.slice(0, path.lastIndexOf("/dist/"));
    return join(root, "dist", target.slice(1), "index.d.ts");
  }
  return target.startsWith(".") ? join(dirname(path), target.replace(/\.[jt]s$/, ".d.ts")) : null;
}

/**
 * Everything that a declaration file exports, by name.
 * @returns {Map<string, Entry>}
 */
function exportsOf(path) {
  const found = new Map();
  for (const { doc, text } of parse(path).statements) {
    const [, names, target] = REEXPORT.exec(text) ?? [];
    const source = target === undefined ? null : resolve(path, target);
    if (source !== null) {
      const inner = exportsOf(source);
      for (const [name, outer] of names === undefined ? sameNames(inner) : pairs(names)) {
        const entry = inner.get(name);
        if (entry === undefined) throw new Error(`${path}: ${target} does not export ${name}`);
        found.set(outer, { ...entry, name: outer });
      }
      continue;
    }
    const [, name] = DECLARATION.exec(text) ?? [];
    if (name === undefined) continue;
    const entry = found.get(name) ?? { name, doc: "", declarations: [] };
    entry.doc ||= doc;
    entry.declarations.push(text);
    found.set(name, entry);
  }
  return found;
}

const sameNames = (inner) => [...inner.keys()].map((name) => [name, name]);

/** "a, type B as C" as [["a", "a"], ["B", "C"]]. */
const pairs = (names) =>
  names
    .split(",")
    .map((part) => part.replace(/\btype /, "").trim())
    .filter((part) => part !== "")
    .map((part) => part.split(" as "))
    .map(([name, outer]) => [name, outer ?? name]);

const kindOf = ({ declarations }) =>
  KINDS.find((kind) => new RegExp(`^export (declare )?(abstract )?${kind} `).test(declarations[0]));

/** A declaration as its reader needs it: no private members; a schema without its fields. */
function shown(declaration) {
  if (SCHEMA.test(declaration)) {
    return declaration.replace(/^export declare (const \w+): [\s\S]*$/, "$1: z.ZodType;");
  }
  return declaration
    .replace(/^export (declare )?/, "")
    .replace(/^ {4}(#private|private [^;]*);\n/gm, "")
    .replace(/^( {4})+/gm, (indent) => "  ".repeat(indent.length / 4))
    .replace(/type (\w+) = \n/, "type $1 =\n");
}

const MEMBER = /^ {4}(?:readonly |get )?(\w+)\??[(:<]/;

/** A class's declaration with the docstrings that its members inherit from interfaces. */
function withInherited(declaration, entries) {
  const [, names = ""] = /^export declare class \w+.* implements ([\w, ]+)/.exec(declaration) ?? [];
  const docs = new Map();
  for (const name of names.trim().split(", ")) {
    const [text = ""] = entries.get(name)?.declarations ?? [];
    for (const [, doc, member] of text.matchAll(/^( {4}\/\*\*[\s\S]*?\*\/\n)(.*)/gm)) {
      docs.set(MEMBER.exec(member)?.[1], doc);
    }
  }
  const lines = declaration.split("\n");
  const isDocumented = (index) => lines[index - 1]?.endsWith("*/");
  return lines
    .map((line, index) => {
      const doc = isDocumented(index) ? undefined : docs.get(MEMBER.exec(line)?.[1]);
      return doc === undefined ? line : doc + line;
    })
    .join("\n");
}

/** Tags as sentences. */
const prose = (doc) =>
  doc
    .replace(/^@throws /gm, "\nThrows ")
    .replace(/^@returns /gm, "\nReturns ")
    .trim();

/** Names in code that have an entry, as links. */
function links(entry, homes, page) {
  const code = entry.declarations
    .map(shown)
    .join("\n")
    .replace(/\/\*\*[\s\S]*?\*\//g, "");
  const names = new Set(code.match(/\b[A-Z]\w+/g) ?? []);
  names.delete(entry.name);
  const known = [...names].filter((name) => homes.has(name)).sort();
  return known.map((name) => {
    const home = homes.get(name);
    return `[${name}](${home === page ? "" : home}#${name.toLowerCase()})`;
  });
}

function section(entry, homes, page) {
  const schema = entry.declarations.some((text) => SCHEMA.test(text));
  const related = links(entry, homes, page);
  return [
    `### ${entry.name}`,
    ...(entry.doc === "" ? [] : [prose(entry.doc)]),
    ...(schema ? ["A zod schema; its fields are in [configuration.md](../configuration.md)."] : []),
    `\`\`\`ts\n${entry.declarations.map(shown).join("\n")}\n\`\`\``,
    ...(related.length > 0 ? [`See ${related.join(", ")}.`] : []),
  ].join("\n\n");
}

/** The paragraphs of a front door's header before its list of files. */
function introduction(path) {
  const paragraphs = parse(path).header.split("\n\n");
  const list = paragraphs.findIndex((text) => /^( {2}|Folders|Subfolders|@module)/.test(text));
  return paragraphs.slice(0, list === -1 ? undefined : list).join("\n\n");
}

function page(point, homes, notice) {
  const here = [...point.entries.values()].filter(({ name }) => homes.get(name) === point.page);
  const elsewhere = [...point.entries.keys()].filter((name) => homes.get(name) !== point.page);
  const parts = KINDS.map((kind) => [kind, here.filter((entry) => kindOf(entry) === kind)]);
  const body = parts
    .filter(([, entries]) => entries.length > 0)
    .flatMap(([kind, entries]) => [
      `## ${HEADINGS[kind]}`,
      ...entries
        .sort((a, b) => (a.name < b.name ? -1 : 1))
        .map((entry) => section(entry, homes, point.page)),
    ]);
  const also = elsewhere.sort().map((name) => {
    return `[${name}](${homes.get(name)}#${name.toLowerCase()})`;
  });
  return `${[
    `# ${point.specifier}`,
    notice,
    introduction(point.path),
    ...body,
    ...(also.length > 0 ? ["## Also exported", `${also.join(", ")}.`] : []),
  ].join("\n\n")}\n`;
}

/** Interfaces may be exported by another entry point than the class. */
function inherit(points) {
  const all = new Map(points.flatMap(({ entries }) => [...entries]));
  for (const entry of points.flatMap(({ entries }) => [...entries.values()])) {
    entry.declarations = entry.declarations.map((text) => withInherited(text, all));
  }
}

/** Docstrings are the text of these pages: an export without one is refused. */
function refuseUndocumented(points) {
  const missing = points.flatMap(({ specifier, entries }) =>
    [...entries.values()]
      .filter(({ doc }) => doc === "")
      .map(({ name }) => `${specifier}: ${name}`),
  );
  if (missing.length > 0) throw new Error(`Exports without a docstring:\n${missing.join("\n")}`);
}

/**
 * The pages of a package, as [path, text].
 * @param {string} notice says that they are generated
 * @param {string} root the folder of its package.json
 */
export function apiReference(notice, root = ROOT) {
  const manifest = JSON.parse(readFileSync(join(root, "package.json"), "utf8"));
  const points = Object.entries(manifest.exports)
    .filter(([, target]) => target.types !== undefined)
    .map(([subpath, { types }]) => {
      const specifier = `${manifest.name}${subpath.slice(1)}`;
      return { specifier, path: join(root, types), page: `${specifier.split("/").at(-1)}.md` };
    });
  const missing = points.find(({ path }) => !existsSync(path));
  if (missing !== undefined) throw new Error(`${missing.path} is missing: run npm run build`);
  for (const point of points) point.entries = exportsOf(point.path);
  refuseUndocumented(points);
  inherit(points);
  const homes = new Map();
  for (const { page, entries } of points) {
    for (const name of entries.keys()) if (!homes.has(name)) homes.set(name, page);
  }
  return points.map((point) => [`docs/api/${point.page}`, page(point, homes, notice)]);
}
