// node tools/join-modules.mjs [DIST]
//
// Joins the modules of each thread and child process, and those of the CLI, which finding and
// reading hundreds of files keeps from its work for half a second. A thread has one file then; the
// CLI has the files in cli/joined, of which a command reads what it needs, and cli/main.js leads
// there. What tsc wrote stays beside each as NAME.parts.js. Packages of many files are joined, too,
// and their licences are in DIST/joined-licences.txt. Without esbuild, as in an install without
// development packages, all start from what tsc wrote.
import { existsSync, readFileSync, renameSync, rmSync, writeFileSync } from "node:fs";
import { dirname, relative, resolve, sep } from "node:path";
import { fileURLToPath } from "node:url";
import { licencesOf, packageOf } from "./joined-packages.mjs";

/** Files that a worker thread or a child process starts from. */
const THREADS = [
  "cluster/index/shard-thread",
  "devices/cuda/kernels/compile-thread",
  "devices/cuda/weights/read-thread",
  "engine/thread/engine-thread",
  "engine/thread/stage-process",
  "rag/readers/reading-process",
  "rag/stores/folder-thread",
  "sampling/grammar/grammar-process",
  "server/answering/answering-thread",
  "tokenizer/text-thread",
];
/** Packages that most starts read hundreds of files of, without files that they look for. */
const PACKAGES = new Set([
  ...["@msgpack/msgpack", "@opentelemetry/api", "commander", "ioredis", "lossless-json"],
  ...["prom-client", "undici", "yaml", "zod"],
]);
const LICENCES = "joined-licences.txt";
const CLI = "cli/main";
/** Beside `CLI`. */
const CLI_FOLDER = "joined";
const BANNER = "// Joined by tools/join-modules.mjs.";
/** Packages of CommonJS ask for modules of Node by `require`. */
const REQUIRE =
  'import { createRequire as requireFrom } from "node:module"; ' +
  "const require = requireFrom(import.meta.url);";

/** What a module says of its own place must stay true in a file of another place. */
function ownPlaces(dist, folder) {
  return {
    name: "own-places",
    setup({ onLoad }) {
      onLoad({ filter: /\.js$/ }, ({ path }) => {
        if (!path.startsWith(`${dist}${sep}`)) return null;
        const text = readFileSync(path, "utf8");
        if (!text.includes("import.meta.url")) return null;
        const place = JSON.stringify(relative(folder, path).split(sep).join("/"));
        const own = `new URL(${place}, import.meta.url).href`;
        return { contents: text.replaceAll("import.meta.url", own), loader: "js" };
      });
    },
  };
}

/** Other packages are imported as before; what a joined one imports is joined, too. */
function somePackages(dist) {
  return {
    name: "some-packages",
    setup({ onResolve }) {
      onResolve({ filter: /^[^.#/]/ }, ({ path, importer }) => {
        const isOwn = importer.startsWith(`${dist}${sep}`);
        return isOwn && !PACKAGES.has(packageOf(path)) ? { path, external: true } : null;
      });
    },
  };
}

/** What tsc wrote of an entry, which gets out of the way where it is not yet. */
function partsOf(dist, entry) {
  const file = resolve(dist, `${entry}.js`);
  const parts = resolve(dist, `${entry}.parts.js`);
  if (!existsSync(file)) throw new Error(`Cannot join ${file}: it is not built`);
  if (!readFileSync(file, "utf8").includes(BANNER)) renameSync(file, parts);
  return parts;
}

/** `folder`: where all files of the output are. */
function options(dist, folder) {
  return {
    ...{ banner: { js: `${BANNER}\n${REQUIRE}` }, logLevel: "warning", metafile: true },
    ...{ bundle: true, platform: "node", format: "esm", target: "node20" },
    plugins: [somePackages(dist), ownPlaces(dist, folder)],
  };
}

async function joinThread(build, dist, entry) {
  const outfile = resolve(dist, `${entry}.js`);
  const entryPoints = [partsOf(dist, entry)];
  return await build({ ...options(dist, dirname(outfile)), entryPoints, outfile });
}

/** A file for each command, and others for what several commands need. */
async function joinCli(build, dist) {
  const main = resolve(dist, `${CLI}.js`);
  const outdir = resolve(dirname(main), CLI_FOLDER);
  rmSync(outdir, { recursive: true, force: true });
  const entryPoints = [{ in: partsOf(dist, CLI), out: "main" }];
  const made = await build({ ...options(dist, outdir), entryPoints, outdir, splitting: true });
  writeFileSync(main, `#!/usr/bin/env node\n${BANNER}\nimport "./${CLI_FOLDER}/main.js";\n`);
  return made;
}

const dist = resolve(process.argv[2] ?? fileURLToPath(new URL("../dist", import.meta.url)));
const esbuild = await import("esbuild").catch((error) => {
  if (error.code !== "ERR_MODULE_NOT_FOUND") throw error;
  console.warn("perigee starts from many files, a little later: esbuild is not installed");
  return null;
});
if (esbuild !== null) {
  const threads = THREADS.map((entry) => joinThread(esbuild.build, dist, entry));
  const made = await Promise.all([...threads, joinCli(esbuild.build, dist)]);
  const files = made.flatMap(({ metafile }) => Object.keys(metafile.inputs));
  writeFileSync(resolve(dist, LICENCES), licencesOf(files.map((file) => resolve(file))));
}
