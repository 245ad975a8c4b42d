// node tools/spread-literals.mjs [DIST]
//
// Writes `{ ...null, ...a, b }` for `{ ...a, b }` in what tsc wrote. Both mean the same, but V8
// 11.3 (Node 20) makes new object shapes, in the old generation, each time a literal with further
// members begins with a spread: 2.1 us and kilobytes of garbage that keeps others alive, where
// the second form takes 0.04 us (`node bench/spread-literals.mjs`). Later versions make no
// difference. Without acorn, as in an install without development packages, files stay as tsc
// wrote them.
import { readdirSync, readFileSync, realpathSync, writeFileSync } from "node:fs";
import { join, resolve } from "node:path";
import { fileURLToPath } from "node:url";

const NOTHING = "...null, ";

/** Where in a text literals begin with a spread and have more members. */
export function spreadStarts(text, parse) {
  const places = [];
  const look = (node) => {
    if (node.type === "ObjectExpression" && node.properties.length > 1) {
      const [{ type, argument, start }] = node.properties;
      const isNothing = argument?.type === "Literal" && argument.value === null;
      if (type === "SpreadElement" && !isNothing) places.push(start);
    }
    for (const value of Object.values(node)) {
      for (const child of Array.isArray(value) ? value : [value]) {
        if (typeof child?.type === "string") look(child);
      }
    }
  };
  look(parse(text, { ecmaVersion: "latest", sourceType: "module" }));
  return places.sort((a, b) => a - b);
}

/** The same program, whose literals with more members do not begin with a spread of something. */
export function withoutSpreadStarts(text, parse) {
  let changed = "";
  let from = 0;
  for (const place of spreadStarts(text, parse)) {
    changed += text.slice(from, place) + NOTHING;
    from = place;
  }
  return changed + text.slice(from);
}

function main(dist, parse) {
  for (const entry of readdirSync(dist, { recursive: true, withFileTypes: true })) {
    if (!entry.isFile() || !entry.name.endsWith(".js")) continue;
    const path = join(entry.parentPath, entry.name);
    const text = readFileSync(path, "utf8");
    if (!text.includes("...")) continue;
    const changed = withoutSpreadStarts(text, parse);
    if (changed !== text) writeFileSync(path, changed);
  }
}

const own = fileURLToPath(import.meta.url);
if (process.argv[1] !== undefined && realpathSync(process.argv[1]) === own) {
  const acorn = await import("acorn").catch((error) => {
    if (error.code !== "ERR_MODULE_NOT_FOUND") throw error;
    console.warn("Literals that begin with a spread are slow in Node 20: acorn is not installed");
    return null;
  });
  const dist = resolve(process.argv[2] ?? fileURLToPath(new URL("../dist", import.meta.url)));
  if (acorn !== null) main(dist, acorn.parse);
}
