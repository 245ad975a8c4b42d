/** Where files live, and who may import whom: layers, their rooms, doors, and no circles. */
import { dirname, join, normalize } from "node:path/posix";
import { KNOWN_CIRCLES, LAYERS, ROOM_LAYERS, ROOMS } from "./layers.mjs";
import { folderOf, IMPORT, matching, withoutComments } from "./sources.mjs";

/** @typedef {import("./sources.mjs").Files} Files */
/** @typedef {import("./rules.mjs").Violation} Violation */

/** Folders meet at front doors, downwards only. @param {Files} files @returns {Violation[]} */
export function layers(files) {
  const found = [];
  for (const [path, text] of matching(files, /^src\/[^/]+\/.*\.ts$/)) {
    const folder = folderOf(path);
    const allowed = LAYERS[folder];
    if (allowed === undefined) {
      found.push({ rule: "layers", path, message: `${folder} is not in tools/tidy/layers.mjs` });
      continue;
    }
    for (const [, target = ""] of withoutComments(text).matchAll(IMPORT)) {
      const problem = importProblem(path, folder, allowed, target);
      if (problem !== null) found.push({ rule: "layers", path, message: problem });
    }
  }
  return found;
}

/** @returns {string | null} */
function importProblem(path, folder, allowed, target) {
  if (target.startsWith("#")) {
    const name = target.slice(1);
    if (name.startsWith(`${folder}/`)) return null; // between rooms
    return allowed.includes(name) ? null : `${folder} must not import ${target}`;
  }
  if (!target.startsWith(".")) return null;
  const resolved = normalize(join(dirname(path), target));
  return resolved.startsWith(`src/${folder}/`)
    ? null
    : `${target} leaves ${folder}; use its door #…`;
}

/**
 * Rooms of a layer meet at their doors, downwards only.
 * @param {Files} files
 * @returns {Violation[]}
 */
export function rooms(files) {
  const found = [];
  for (const [layer, table] of Object.entries(ROOMS)) {
    for (const [path, text] of matching(files, new RegExp(`^src/${layer}/.*\\.ts$`))) {
      const room = roomOf(path, layer);
      if (room !== null && table[room] === undefined) {
        found.push({ rule: "rooms", path, message: `${room} is not in tools/tidy/layers.mjs` });
        continue;
      }
      for (const [, target = ""] of withoutComments(text).matchAll(IMPORT)) {
        const problem = roomProblem(path, layer, target);
        if (problem !== null) found.push({ rule: "rooms", path, message: problem });
      }
    }
  }
  return found;
}

/**
 * The room that a file of a layer is in; null: at the top.
 * @param {string} path
 * @param {string} layer
 */
function roomOf(path, layer) {
  const [room, ...rest] = path.slice(`src/${layer}/`.length).split("/");
  return rest.length > 0 ? (room ?? null) : null;
}

/** @returns {string | null} */
function roomProblem(path, layer, target) {
  const room = roomOf(path, layer);
  const layersMax = ROOM_LAYERS[`${layer}/${room}`];
  if (layersMax !== undefined && target.startsWith("#") && !target.startsWith(`#${layer}/`)) {
    return layersMax.includes(target.slice(1)) ? null : `${room} must not import ${target}`;
  }
  if (target.startsWith(`#${layer}/`)) {
    const other = target.slice(layer.length + 2);
    const allowed = room === null ? Object.keys(ROOMS[layer]) : ROOMS[layer][room];
    return allowed.includes(other) ? null : `${room ?? "the top"} must not import ${target}`;
  }
  if (!target.startsWith(".")) return null;
  const resolved = normalize(join(dirname(path), target));
  if (!resolved.startsWith(`src/${layer}/`)) return null; // the business of layers()
  const other = roomOf(resolved, layer);
  return other === room ? null : `${target} leaves ${room ?? "the top"}; use a door`;
}

/** No file needs itself, by whatever way. @param {Files} files @returns {Violation[]} */
export function circles(files) {
  const imports = new Map(
    matching(files, /^src\/.*\.ts$/).map(([path, text]) => [path, importsOf(path, text, files)]),
  );
  const found = [];
  for (const circle of circlesOf(imports)) {
    const [path = ""] = circle;
    if (KNOWN_CIRCLES.some((known) => known.join() === circle.join())) continue;
    found.push({ rule: "circles", path, message: `a circle of files: ${circle.join(", ")}` });
  }
  return found;
}

/** @returns {string[]} */
function importsOf(path, text, files) {
  const targets = [...withoutComments(text).matchAll(IMPORT)].map(([, target = ""]) =>
    target.startsWith("#")
      ? `src/${target.slice(1)}/index.ts`
      : normalize(join(dirname(path), target)),
  );
  return targets.filter((target) => files.has(target));
}

/**
 * Files that can be reached from each other, sorted, two or more (Tarjan's algorithm).
 * @param {ReadonlyMap<string, readonly string[]>} imports
 * @returns {string[][]}
 */
function circlesOf(imports) {
  const found = [];
  const order = new Map();
  const lowest = new Map();
  const stack = [];
  const visit = (path) => {
    order.set(path, order.size);
    lowest.set(path, order.get(path));
    stack.push(path);
    for (const target of imports.get(path) ?? []) {
      if (!order.has(target)) visit(target);
      if (stack.includes(target)) {
        lowest.set(path, Math.min(lowest.get(path), lowest.get(target)));
      }
    }
    if (lowest.get(path) !== order.get(path)) return;
    const circle = stack.splice(stack.indexOf(path));
    if (circle.length > 1) found.push(circle.sort());
  };
  for (const path of imports.keys()) if (!order.has(path)) visit(path);
  return found;
}

/** A front door has a header and re-exports only. @param {Files} files @returns {Violation[]} */
export function doors(files) {
  const found = [];
  // Nobody stands above the command line, so it needs no door.
  const layers = Object.keys(LAYERS).filter((name) => name !== "cli");
  const inner = Object.entries(ROOMS).flatMap(([layer, table]) =>
    Object.keys(table).map((room) => `${layer}/${room}`),
  );
  for (const folder of [...layers, ...inner]) {
    const path = `src/${folder}/index.ts`;
    const text = files.get(path);
    if (text === undefined) {
      if (matching(files, new RegExp(`^src/${folder}/`)).length > 0) {
        found.push({ rule: "doors", path, message: "a folder needs its front door" });
      }
      continue;
    }
    if (!text.startsWith("/**")) found.push({ rule: "doors", path, message: "needs a header" });
    const rest = withoutComments(text).replace(/export (type )?(\{[^}]*\}|\*) from "[^"]+";/g, "");
    if (rest.trim() !== "") {
      found.push({
        rule: "doors",
        path,
        message: `holds more than re-exports: ${rest.trim().slice(0, 60)}`,
      });
    }
  }
  return found;
}

/** ARCHITECTURE.md prints the layer table as it is. @param {Files} files @returns {Violation[]} */
export function layerTable(files) {
  const path = "ARCHITECTURE.md";
  const text = files.get(path);
  if (text === undefined) return [{ rule: "layerTable", path, message: "is missing" }];
  return Object.entries(LAYERS)
    .map(([folder, allowed]) => `| ${folder} | ${allowed.join(", ") || "–"} |`)
    .filter((row) => !text.includes(row))
    .concat(roomRows().filter((row) => !text.includes(row)))
    .map((row) => ({ rule: "layerTable", path, message: `lacks the row: ${row}` }));
}

/** @returns {string[]} */
function roomRows() {
  return Object.entries(ROOMS).flatMap(([layer, table]) =>
    Object.entries(table).map(
      ([room, allowed]) => `| ${layer}/${room} | ${allowed.join(", ") || "–"} |`,
    ),
  );
}
