/**
 * The page that shows the OpenAPI document: one file, without a network beyond this server. Texts
 * of the document become text nodes, never HTML.
 */

/** The page's style; the policy of the page names its hash. */
export const PAGE_STYLE = `
:root { color-scheme: light dark; --line: #8884; --soft: #8882; --accent: #2563eb; }
@media (prefers-color-scheme: dark) { :root { --accent: #7aa2ff; } }
* { box-sizing: border-box; }
body { margin: 0 auto; max-width: 60rem; padding: 1.5rem 1rem 4rem;
  font: 15px/1.5 system-ui, sans-serif; }
h1 { font-size: 1.5rem; margin: 0; }
h2 { font-size: 1.1rem; margin: 2rem 0 .5rem; }
code, pre, .path { font-family: ui-monospace, monospace; font-size: .92em; }
pre { overflow-x: auto; padding: .6rem .8rem; background: var(--soft); border-radius: 6px; }
input { width: 100%; padding: .5rem .7rem; margin-top: 1rem; font: inherit; border-radius: 6px;
  border: 1px solid var(--line); background: transparent; color: inherit; }
input:focus-visible, summary:focus-visible { outline: 2px solid var(--accent); }
details.operation { border: 1px solid var(--line); border-radius: 6px; margin: .4rem 0; }
details.operation > summary { padding: .45rem .7rem; cursor: pointer; }
details.operation > div { padding: 0 .9rem .8rem; }
.method { display: inline-block; min-width: 4.2em; font-weight: 600; color: var(--accent); }
.what { opacity: .75; margin-left: .6em; }
ul { list-style: none; margin: .2rem 0; padding-left: 1rem; border-left: 1px solid var(--line); }
li { margin: .15rem 0; }
.type { opacity: .75; }
.must { color: var(--accent); }
[hidden] { display: none; }
`;

/** The page's script. It opens schemas when they are looked at: some are deep. */
export const PAGE_SCRIPT = `
"use strict";
const made = (name, text, kind) => {
  const node = document.createElement(name);
  if (text) node.textContent = text;
  if (kind) node.className = kind;
  return node;
};
const opened = (node, fill) => {
  node.addEventListener("toggle", () => { if (node.open) fill(); }, { once: true });
};
let document_ = null;
const resolved = (schema) => {
  const ref = schema && schema.$ref;
  if (typeof ref !== "string") return schema || {};
  return ref.slice(2).split("/").reduce((at, name) => (at || {})[name], document_) || {};
};
const typeOf = (given) => {
  const schema = resolved(given);
  const options = schema.anyOf || schema.oneOf;
  if (options) return [...new Set(options.map(typeOf))].join(" or ");
  if (schema.const !== undefined) return JSON.stringify(schema.const);
  if (schema.enum) return schema.enum.map((value) => JSON.stringify(value)).join(", ");
  if (schema.type === "array") return "list of " + (typeOf(schema.items) || "anything");
  const type = Array.isArray(schema.type) ? schema.type.join(" or ") : schema.type || "anything";
  const low = schema.minimum ?? schema.exclusiveMinimum;
  const wide = (bound) => bound === undefined || Math.abs(bound) >= Number.MAX_SAFE_INTEGER;
  const range = [wide(low) ? "" : low, wide(schema.maximum) ? "" : schema.maximum].join("…");
  return range === "…" ? type : type + " " + range;
};
const objectsIn = (given) => {
  const schema = resolved(given);
  if (schema.properties) return [schema];
  if (schema.items) return objectsIn(schema.items);
  return (schema.anyOf || schema.oneOf || []).flatMap(objectsIn);
};
const fieldLine = (name, schema, must) => {
  const line = made("span");
  line.append(made("code", name), " ", made("span", typeOf(schema), "type"));
  if (must) line.append(" ", made("span", "required", "must"));
  const { description } = resolved(schema);
  if (description) line.append(made("span", description, "what"));
  return line;
};
const fieldsOf = (schema) => {
  const list = made("ul");
  const must = new Set(schema.required || []);
  for (const [name, field] of Object.entries(schema.properties || {})) {
    const item = made("li");
    const line = fieldLine(name, field, must.has(name));
    const inside = objectsIn(field);
    if (inside.length === 0) item.append(line);
    else {
      const node = made("details");
      const head = made("summary");
      head.append(line);
      node.append(head);
      opened(node, () => node.append(...inside.map(fieldsOf)));
      item.append(node);
    }
    list.append(item);
  }
  return list;
};
const exampleOf = (method, path, media) => {
  const lines = ["curl " + (method === "get" ? "" : "-X " + method.toUpperCase() + " ") +
    location.origin + path];
  if (document_.security) lines.push("  -H 'authorization: Bearer KEY'");
  if (media) lines.push("  -H 'content-type: " + media + "'");
  if (media === "application/json") lines.push("  -d '{ … }'");
  return lines.join(" \\\\\\n");
};
const contentOf = (method, path, operation) => {
  const node = made("div");
  const parameters = operation.parameters || [];
  if (parameters.length > 0) {
    const list = made("ul");
    for (const { name, schema, required, in: where } of parameters) {
      const item = made("li");
      item.append(fieldLine(name, schema, required), made("span", "in the " + where, "what"));
      list.append(item);
    }
    node.append(made("h3", "Parameters"), list);
  }
  const [media, body] = Object.entries(operation.requestBody?.content || {})[0] || [];
  if (body) node.append(made("h3", "Body"), ...objectsIn(body.schema).map(fieldsOf));
  const answer = operation.responses["200"];
  const kinds = Object.keys(answer.content || {}).join(" or ") || "no content";
  node.append(made("h3", "Answer"), made("p", answer.description + ": " + kinds));
  node.append(made("pre", exampleOf(method, path, media)));
  return node;
};
const operationOf = (method, path, operation) => {
  const node = made("details", "", "operation");
  const head = made("summary");
  head.append(made("span", method.toUpperCase(), "method"), made("span", path, "path"));
  head.append(made("span", operation.summary, "what"));
  node.append(head);
  node.dataset.words = (path + " " + operation.summary).toLowerCase();
  opened(node, () => node.append(contentOf(method, path, operation)));
  return node;
};
const show = () => {
  const main = document.querySelector("main");
  document.querySelector("#version").textContent = document_.info.version;
  const all = Object.entries(document_.paths).flatMap(([path, methods]) =>
    Object.entries(methods).map(([method, operation]) => ({ method, path, operation })));
  for (const { name } of document_.tags) {
    const section = made("section");
    const own = all.filter(({ operation }) => operation.tags[0] === name);
    const nodes = own.map((one) => operationOf(one.method, one.path, one.operation));
    section.append(made("h2", name), ...nodes);
    main.append(section);
  }
  const filter = document.querySelector("input");
  filter.addEventListener("input", () => {
    const wanted = filter.value.trim().toLowerCase();
    for (const section of document.querySelectorAll("section")) {
      const nodes = [...section.querySelectorAll("details.operation")];
      for (const node of nodes) node.hidden = !node.dataset.words.includes(wanted);
      section.hidden = nodes.every((node) => node.hidden);
    }
  });
};
fetch("openapi.json").then(async (answer) => {
  if (!answer.ok) throw new Error("The document cannot be read: status " + answer.status);
  document_ = await answer.json();
  show();
}).catch((error) => { document.querySelector("#problem").textContent = error.message; });
`;

/** The page. */
export const DOCS_PAGE = `<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>Perigee: routes</title>
<style>${PAGE_STYLE}</style>
</head>
<body>
<header>
<h1>Perigee <small id="version"></small></h1>
<p>Every route of this server, from <a href="openapi.json">openapi.json</a>, which is made from the
schemas that requests are checked by.</p>
<label>Find a route <input type="search" placeholder="responses, cache, health …"></label>
</header>
<main></main>
<p id="problem" role="alert"></p>
<noscript>This page needs JavaScript to show <a href="openapi.json">openapi.json</a>.</noscript>
<script>${PAGE_SCRIPT}</script>
</body>
</html>
`;
