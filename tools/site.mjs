// node tools/site.mjs [--check]: builds the documentation as a site in dist-site, with VitePress,
// which it installs into `site` where it is not there. It ends with 1 where a link is dead, a page
// of docs stands in no group of the sidebar, or a built page would ask another host for anything.
// --check looks at pages and links alone, and installs and builds nothing. PERIGEE_SITE_BASE=/docs/
// is for a site below a path.
import { spawnSync } from "node:child_process";
import { cpSync, existsSync, mkdirSync, rmSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";
import { SIDEBAR, TOP } from "../site/.vitepress/sidebar.mjs";
import { refuse } from "./flags.mjs";
import { foreignHosts } from "./site/foreign-hosts.mjs";
import { sitePages } from "./site/site-pages.mjs";

const root = fileURLToPath(new URL("..", import.meta.url));
const site = join(root, "site");
const [flag] = process.argv.slice(2);
if (flag !== undefined && flag !== "--check") refuse(`Cannot use ${flag}`);

const { pages, files, images, dead } = sitePages(root);
fail([...dead, ...sidebarProblems()]);
if (flag === "--check") {
  console.log(`site: ${pages.size} pages, ${files.size} files, ${images.size} pictures`);
  process.exit(0);
}

lay("pages", pages, (text, to) => writeFileSync(to, text));
for (const [name, path] of images) copy(path, join(site, "pages", name));
lay("files", files, (path, to) => copy(path, to));
if (!existsSync(join(site, "node_modules/vitepress"))) run("npm", ["ci", "--ignore-scripts"]);
run(process.execPath, ["node_modules/vitepress/bin/vitepress.js", "build"]);
fail(foreignHosts(join(root, "dist-site")));
console.log("site: dist-site is built; npx vite preview --outDir dist-site shows it");

/** Pages of docs that no reader finds, and entries that lead to no page. */
function sidebarProblems() {
  const links = [...TOP, ...SIDEBAR.flatMap(({ items }) => items)].map(({ link }) => link);
  const named = links.map((link) => (link === "/" ? "index.md" : `${link.slice(1)}.md`));
  const lost = [...pages.keys()].filter(
    (name) => name.startsWith("docs/") && !named.includes(name),
  );
  return [
    ...lost.map((name) => `${name} is in no group of site/.vitepress/sidebar.mjs`),
    ...named.filter((name) => !pages.has(name)).map((name) => `the sidebar has no page ${name}`),
  ];
}

function lay(folder, entries, write) {
  rmSync(join(site, folder), { recursive: true, force: true });
  for (const [name, entry] of entries) {
    const to = join(site, folder, name);
    mkdirSync(dirname(to), { recursive: true });
    write(entry, to);
  }
}

function copy(path, to) {
  mkdirSync(dirname(to), { recursive: true });
  cpSync(join(root, path), to);
}

function run(program, words) {
  const { status } = spawnSync(program, words, { cwd: site, stdio: "inherit" });
  if (status !== 0) process.exit(1);
}

function fail(problems) {
  for (const problem of problems) console.error(`site: ${problem}`);
  if (problems.length > 0) process.exit(1);
}
