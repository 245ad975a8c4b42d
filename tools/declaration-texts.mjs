// node tools/declaration-texts.mjs: writes the texts of settings (`.describe()` of their schemas)
// into the declarations of the build, so that editors show them where an option is written. Run
// after tsc, which knows nothing of them. zod's own types lose comments of fields: a type
// `z.input<typeof Schema>` becomes an interface of the same fields and types, with comments.
import { readdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath, pathToFileURL } from "node:url";
import { z } from "zod";

const dist = fileURLToPath(new URL("../dist", import.meta.url));

const INPUT_TYPE = /^export type (\w+) = z\.input<typeof (\w+)>;$/gm;

/** A field's text, with its default where the text does not say it. */
function textOf({ description, default: fallback }) {
  if (description === undefined) return null;
  const isTold = fallback === undefined || fallback === null || typeof fallback === "object";
  const text = isTold ? description : `${description} Default: ${JSON.stringify(fallback)}.`;
  return text.replaceAll("*/", "* /");
}

const keyOf = (name) => (/^[a-zA-Z_]\w*$/.test(name) ? name : JSON.stringify(name));

/** The part of a field's schema that has fields of its own; undefined: none, or not it alone. */
function groupOf(field) {
  const parts = [field, ...(field.anyOf ?? [])].filter((part) => part.properties !== undefined);
  const hasList = field.anyOf?.some(({ type }) => type === "array") ?? false;
  return parts.length === 1 && !hasList ? parts[0] : undefined;
}

/** The fields of a JSON schema as those of an interface, with comments; `type` has their types. */
function fieldsOf({ properties = {}, required = [] }, { type, indent }) {
  return Object.entries(properties).flatMap(([name, field]) => {
    const text = textOf(field);
    const own = `${type}[${JSON.stringify(name)}]`;
    const group = groupOf(field);
    const inner = { type: `Extract<${own}, object>`, indent: `${indent}    ` };
    const told =
      group === undefined
        ? own
        : [`{`, ...fieldsOf(group, inner), `${indent}} | Exclude<${own}, object>`].join("\n");
    const mark = required.includes(name) ? "" : "?";
    return [
      ...(text === null ? [] : [`${indent}/** ${text} */`]),
      `${indent}readonly ${keyOf(name)}${mark}: ${told};`,
    ];
  });
}

/** A declaration with its input types told. `schemas` are the exports of its module. */
export function withTexts(declaration, schemas) {
  return declaration.replace(INPUT_TYPE, (whole, name, schema) => {
    if (schemas[schema]?._zod === undefined) return whole;
    const json = z.toJSONSchema(schemas[schema], { io: "input", unrepresentable: "any" });
    const type = `z.input<typeof ${schema}>`;
    const fields = fieldsOf(json, { type, indent: "    " });
    return [`export interface ${name} {`, ...fields, "}"].join("\n");
  });
}

async function main() {
  let count = 0;
  for (const file of readdirSync(dist, { recursive: true, encoding: "utf8" })) {
    if (!file.endsWith(".d.ts")) continue;
    const path = join(dist, file);
    const old = readFileSync(path, "utf8");
    if (old.search(INPUT_TYPE) < 0) continue;
    const text = withTexts(old, await import(pathToFileURL(path.replace(/\.d\.ts$/, ".js"))));
    if (text === old) continue;
    writeFileSync(path, text);
    count += 1;
  }
  if (count > 0) console.log(`perigee: texts of settings in ${count} declarations`);
}

if (process.argv[1] === fileURLToPath(import.meta.url)) await main();
