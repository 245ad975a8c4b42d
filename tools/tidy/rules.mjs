/**
 * What `tidy` checks: each rule takes the tracked text files (path to text) and returns violations.
 * Pure functions, so that test/tools/tidy.test.ts can plant one violation for each.
 */
import { dirname, join, normalize } from "node:path/posix";
import { circles, doors, layers, layerTable, rooms } from "./house.mjs";
import { EDGES } from "./layers.mjs";
import { nativeFunctions } from "./native-functions.mjs";
import { folderOf, IMPORT, matching, withoutComments } from "./sources.mjs";

/** @typedef {{ rule: string, path: string, line?: number, message: string }} Violation */
/** @typedef {ReadonlyMap<string, string>} Files */

const LINES_MAX = 400;
const COLUMNS_MAX = 100;
/**
 * Of code: sentences and blank lines between the phases of a kernel are wanted. TypeScript's
 * functions are the linter's business.
 */
const NATIVE_FUNCTION_LINES_MAX = 60;
const README_COMMAND_LINE_MAX = 12;
const BANNED_NAMES = ["utils", "util", "helpers", "helper", "common", "misc", "types", "shared"];
const TEST_ONLY_FOLDERS = [
  "examples",
  "contracts",
  "fuzz",
  "hostile",
  "dashboard",
  "chaos",
  "fixtures",
  "support",
  "golden",
  "tools",
  "bench",
  "packages",
  "clients",
];
const OUTSIDE =
  /\b(Date\.now|new Date\(|Math\.random|setTimeout|setInterval|console\.|process\.env)/;

/** @param {Files} files @returns {Violation[]} */
export function names(files) {
  const found = [];
  for (const [path] of matching(files, /^(src|test|native|bench|tools)\/.*\.(ts|mjs|cpp|h|cu)$/)) {
    const file = path.split("/").at(-1) ?? "";
    const stem = file.replace(/(\.test)?\.[a-z]+$/, "");
    if (!/^[a-z0-9]+(-[a-z0-9]+)*$/.test(stem)) {
      found.push({ rule: "names", path, message: "file names are kebab-case" });
    }
    if (BANNED_NAMES.includes(stem)) {
      found.push({ rule: "names", path, message: `"${stem}" says nothing; name the noun` });
    }
  }
  return found;
}

/** @param {Files} files @returns {Violation[]} */
export function sizes(files) {
  const found = [];
  for (const [path, text] of matching(
    files,
    /^(src|native|tools|bench|training)\/.*\.(ts|mjs|cpp|h|cu|py)$/,
  )) {
    const lines = text.split("\n");
    if (lines.length - 1 > LINES_MAX) {
      const message = `${lines.length - 1} lines, at most ${LINES_MAX}`;
      found.push({ rule: "sizes", path, message });
    }
    lines.forEach((line, index) => {
      // Training text and patterns stand on one line.
      const isText = path.endsWith(".py") && /["'{]/.test(line);
      if ([...line].length > COLUMNS_MAX && !isText && !/https?:\/\//.test(line)) {
        found.push({
          rule: "sizes",
          path,
          line: index + 1,
          message: `longer than ${COLUMNS_MAX} columns`,
        });
      }
    });
  }
  return found;
}

/** Kernels have the size of other functions. @param {Files} files @returns {Violation[]} */
export function nativeSizes(files) {
  return matching(files, /^native\/.*\.(cpp|h|cu)$/).flatMap(([path, text]) =>
    nativeFunctions(text)
      .filter(({ codeLines }) => codeLines > NATIVE_FUNCTION_LINES_MAX)
      .map(({ name, line, codeLines }) => ({
        ...{ rule: "nativeSizes", path, line },
        message: `${name} has ${codeLines} lines of code, at most ${NATIVE_FUNCTION_LINES_MAX}`,
      })),
  );
}

/** Time, chance and settings arrive as arguments. @param {Files} files @returns {Violation[]} */
export function outside(files) {
  const found = [];
  for (const [path, text] of matching(files, /^src\/[^/]+\/.*\.ts$/)) {
    // base/clock.ts hands the system's time out as an argument.
    if (EDGES.some((edge) => path.startsWith(`src/${edge}/`))) continue;
    if (path === "src/base/clock.ts") continue;
    withoutComments(text)
      .split("\n")
      .forEach((line, index) => {
        const match = OUTSIDE.exec(line);
        if (match === null) return;
        found.push({ rule: "outside", path, line: index + 1, message: `${match[1]} below server` });
      });
  }
  return found;
}

/** @param {Files} files @returns {Violation[]} */
export function settings(files) {
  const found = [];
  for (const [path, text] of matching(files, /^src\/.*\.ts$/)) {
    if (!/from "zod"/.test(text)) continue;
    const file = path.split("/").at(-1) ?? "";
    const allowed =
      path === "src/cli/flags.ts" ||
      /config\.ts$|-params\.ts$/.test(file) ||
      /^src\/server\/(openai|openapi|anthropic|ollama)\//.test(path);
    if (!allowed)
      found.push({
        rule: "settings",
        path,
        message: "zod belongs to config files and the APIs of server",
      });
  }
  return found;
}

/** No escape from the type checker. @param {Files} files @returns {Violation[]} */
export function escapes(files) {
  const found = [];
  for (const [path, text] of matching(files, /^(src|test|bench)\/.*\.ts$/)) {
    withoutComments(text)
      .split("\n")
      .forEach((line, index) => {
        if (/(:|<|\bas)\s*any\s*([;,)>\]|&={}]|$)/.test(line)) {
          found.push({ rule: "escapes", path, line: index + 1, message: "any" });
        }
      });
    if (/@ts-(ignore|expect-error|nocheck)/.test(text)) {
      found.push({ rule: "escapes", path, message: "a @ts- comment" });
    }
  }
  return found;
}

/** test/ mirrors src/, folder by folder, both ways. @param {Files} files @returns {Violation[]} */
export function mirror(files) {
  const sources = new Set(matching(files, /^src\/[^/]+\//).map(([path]) => folderOf(path)));
  const tests = new Set(
    matching(files, /^test\/[^/]+\/.*\.test\.ts$/).map(([path]) => folderOf(path)),
  );
  const untested = [...sources].filter((folder) => !tests.has(folder));
  const homeless = [...tests].filter(
    (folder) => !sources.has(folder) && !TEST_ONLY_FOLDERS.includes(folder),
  );
  return [
    ...untested.map((folder) => ({
      rule: "mirror",
      path: `src/${folder}`,
      message: "has no test folder",
    })),
    ...homeless.map((folder) => ({
      rule: "mirror",
      path: `test/${folder}`,
      message: "tests no src folder",
    })),
  ];
}

/**
 * Every numbered rule has a test that cites it, and every citation a rule.
 * @param {Files} files
 * @returns {Violation[]}
 */
export function specs(files) {
  const rules = new Map();
  for (const [path, text] of matching(files, /^src\/.*SPEC\.md$/)) {
    for (const [, id] of text.matchAll(/^\s*[-*]?\s*\*\*([A-Z]{2,3}\d+)\b/gm)) rules.set(id, path);
  }
  const prefixes = new Set([...rules.keys()].map((id) => id.replace(/\d+$/, "")));
  const cited = new Map();
  for (const [path, text] of matching(files, /^test\/.*\.ts$/)) {
    for (const [, id = ""] of text.matchAll(/\[([A-Z]{2,3}\d+)\]/g)) {
      if (prefixes.has(id.replace(/\d+$/, ""))) cited.set(id, path);
    }
  }
  return [
    ...[...rules]
      .filter(([id]) => !cited.has(id))
      .map(([id, path]) => ({ rule: "specs", path, message: `no test cites [${id}]` })),
    ...[...cited]
      .filter(([id]) => !rules.has(id))
      .map(([id, path]) => ({ rule: "specs", path, message: `[${id}] is no rule` })),
  ];
}

/**
 * Paths, links and symbols that documents name exist.
 * @param {Files} files
 * @returns {Violation[]}
 */
export function documents(files) {
  const found = [];
  const paths = new Set(files.keys());
  for (const path of files.keys()) {
    const parts = path.split("/");
    for (let depth = 1; depth < parts.length; depth++) paths.add(parts.slice(0, depth).join("/"));
  }
  const code = matching(files, /^(src|native|tools|bench)\//)
    .map(([, text]) => text)
    .join("\n");
  for (const [path, text] of matching(files, /^([A-Z]+\.md|docs\/.*\.md)$/)) {
    for (const message of documentProblems(path, text, paths, code))
      found.push({ rule: "documents", path, message });
  }
  return found;
}

/** @returns {string[]} */
function documentProblems(path, text, paths, code) {
  const problems = [];
  for (const [, target = ""] of text.matchAll(/\]\(([^)#]+)(?:#[^)]*)?\)/g)) {
    if (/^[a-z]+:/.test(target)) continue;
    const resolved = normalize(join(dirname(path), target)).replace(/\/$/, "");
    if (!paths.has(resolved)) problems.push(`link to ${target}, which does not exist`);
  }
  const prose = text.replace(/```[\s\S]*?```/g, "");
  for (const [, quoted = ""] of prose.matchAll(/`([^`\n]+)`/g)) {
    if (/^(src|test|native|tools|bench|docs|training|models|examples)\/[\w./-]+$/.test(quoted)) {
      if (!paths.has(quoted.replace(/\/$/, "")))
        problems.push(`names ${quoted}, which does not exist`);
    } else if (path === "ARCHITECTURE.md" && /^#?[A-Za-z]\w+(\(\))?$/.test(quoted)) {
      const symbol = quoted.replace(/[#()]/g, "");
      if (!new RegExp(`\\b${symbol}\\b`).test(code))
        problems.push(`names ${quoted}, which no code has`);
    }
  }
  return problems;
}

/** Every runtime dependency has a reason. @param {Files} files @returns {Violation[]} */
export function dependencies(files) {
  const manifest = JSON.parse(files.get("package.json") ?? "{}");
  const kinds = ["dependencies", "optionalDependencies", "peerDependencies"];
  const declared = kinds.flatMap((kind) => Object.keys(manifest[kind] ?? {}));
  const architecture = files.get("ARCHITECTURE.md") ?? "";
  const used = new Set();
  const found = [];
  for (const [path, text] of matching(files, /^src\/.*\.ts$/)) {
    const specifiers = [
      ...withoutComments(text).matchAll(IMPORT),
      ...text.matchAll(/resolve\(\s*"([^"]+)"/g),
    ];
    for (const [, target = ""] of specifiers) {
      if (/^[.#]|^node:/.test(target) || !/^[@a-z]/.test(target)) continue;
      const [name = ""] = /^(@[^/]+\/)?[^/]+/.exec(target) ?? [];
      used.add(name);
      if (!declared.includes(name))
        found.push({ rule: "dependencies", path, message: `${name} is not in package.json` });
    }
  }
  for (const name of declared) {
    if (!used.has(name))
      found.push({ rule: "dependencies", path: "package.json", message: `${name} is not used` });
    if (!architecture.includes(name))
      found.push({
        rule: "dependencies",
        path: "ARCHITECTURE.md",
        message: `${name} has no reason`,
      });
  }
  return found;
}

/** Nothing of one machine. @param {Files} files @returns {Violation[]} */
export function machine(files) {
  const found = [];
  for (const [path, text] of files) {
    if (path === "package-lock.json") {
      if (text.includes('"resolved": "http'))
        found.push({ rule: "machine", path, message: "has resolved addresses" });
    } else if (!path.startsWith("tools/tidy/") && !path.startsWith("test/tools/")) {
      const match = /(^|[\s"'`(=])\/(work|root|home|tmp)\/\w+/m.exec(text);
      if (match !== null)
        found.push({
          rule: "machine",
          path,
          message: `names a path of one machine: ${match[0].trim()}`,
        });
    }
  }
  return found;
}

/** @param {Files} files @returns {Violation[]} */
export function readme(files) {
  const lines = (files.get("README.md") ?? "").split("\n").slice(0, README_COMMAND_LINE_MAX);
  if (lines.join("\n").includes("```")) return [];
  const message = `no command within ${README_COMMAND_LINE_MAX} lines`;
  return [{ rule: "readme", path: "README.md", message }];
}

/** Words that make persons of code. */
const PHRASES = /\b(nobody|somebody|anybody|everybody|whoever|hears)\b/i;

/** The first text of a test or suite, also of a table of them. */
const TEST_NAME = /(?:\b(?:test|it|describe)(?:\.\w+)*(?:\(.*\))?|^\s*\]\)|^\s*\))\(\s*["`].*/;

/**
 * Comments, names of tests, and documents but for their code blocks, have subjects that exist.
 * @param {Files} files
 * @returns {Violation[]}
 */
export function phrases(files) {
  const found = [];
  const prose = /^(((src|test|native)\/.*\.(ts|mjs|cpp|cu|h))|((docs\/.*|[^/]*)\.md))$/;
  for (const [path, text] of matching(files, prose)) {
    const code = (path.endsWith(".md") ? codeBlocks : withoutComments)(text).split("\n");
    text.split("\n").forEach((line, index) => {
      const [word] = PHRASES.exec(line) ?? [];
      if (word === undefined) return;
      const isName = path.startsWith("test/") && TEST_NAME.test(line);
      if (PHRASES.test(code[index] ?? "") && !isName) return;
      found.push({ rule: "phrases", path, line: index + 1, message: `say who "${word}" is` });
    });
  }
  return found;
}

/** A document with empty lines in place of its prose. @param {string} text */
function codeBlocks(text) {
  const parts = text.split("```");
  return parts.map((part, index) => (index % 2 ? part : part.replace(/.+/g, ""))).join("```");
}

/** What a device can do is a property of it. @param {Files} files @returns {Violation[]} */
export function deviceKinds(files) {
  const outside = matching(files, /^src\/(?!devices\/|cli\/).*\.ts$/);
  return outside.flatMap(([path, text]) =>
    /\.kind [!=]== "(cuda|cpu|reference)"/.test(withoutComments(text))
      ? [{ rule: "deviceKinds", path, message: "asks for a device's kind, not for what it can" }]
      : [],
  );
}

/** No runtime code that admits to be unfinished. @param {Files} files @returns {Violation[]} */
export function unfinished(files) {
  return matching(files, /^(src|native)\/.*\.(ts|cpp|h|cu)$/)
    .filter(([, text]) => /\b(TODO|FIXME|XXX)\b|not implemented/i.test(text))
    .map(([path]) => ({ rule: "unfinished", path, message: "TODO, FIXME or not implemented" }));
}

/**
 * What scripts import from a build is made from a source that exists: nothing else tells them that
 * a file moved. @param {Files} files @returns {Violation[]}
 */
export function builds(files) {
  const found = [];
  for (const [path, text] of matching(
    files,
    /^(bench|tools|test|examples|training)\/.*\.m?[tj]s$/,
  )) {
    for (const [built, stem] of text.matchAll(/"(?:\.\.\/)+dist\/([\w./-]+)\.js"/g)) {
      if (files.has(`src/${stem}.ts`)) continue;
      found.push({ rule: "builds", path, message: `${built} is built from no source` });
    }
  }
  return found;
}

export const RULES = [
  layers,
  rooms,
  circles,
  builds,
  names,
  doors,
  sizes,
  nativeSizes,
  outside,
  settings,
  escapes,
  mirror,
  specs,
  documents,
  layerTable,
  dependencies,
  machine,
  readme,
  deviceKinds,
  phrases,
  unfinished,
];
