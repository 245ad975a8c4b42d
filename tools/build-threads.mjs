// node tools/build-threads.mjs [DIST]
//
// Joins the modules of each thread and child process into the one file that it starts from: a
// thread that has to find and read hundreds of files first is ready half a second later. What tsc
// wrote stays beside it as NAME.parts.js. Packages are not joined. Without esbuild, as in an
// install without development packages, threads start from what tsc wrote.
import { existsSync, readFileSync, renameSync } from "node:fs";
import { dirname, relative, resolve, sep } from "node:path";
import { fileURLToPath } from "node:url";

/** Files that a worker thread or a child process starts from. */
const ENTRIES = [
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
const BANNER = "// Joined by tools/build-threads.mjs.";

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

async function join(build, dist, entry) {
  const outfile = resolve(dist, `${entry}.js`);
  const parts = resolve(dist, `${entry}.parts.js`);
  if (!existsSync(outfile)) throw new Error(`Cannot join ${outfile}: it is not built`);
  if (!readFileSync(outfile, "utf8").startsWith(BANNER)) renameSync(outfile, parts);
  await build({
    ...{ entryPoints: [parts], outfile, banner: { js: BANNER }, logLevel: "warning" },
    ...{ bundle: true, platform: "node", format: "esm", target: "node20", packages: "external" },
    plugins: [ownPlaces(dist, dirname(outfile))],
  });
}

const dist = resolve(process.argv[2] ?? fileURLToPath(new URL("../dist", import.meta.url)));
const esbuild = await import("esbuild").catch((error) => {
  if (error.code !== "ERR_MODULE_NOT_FOUND") throw error;
  console.warn("Threads start from many files, a little later: esbuild is not installed");
  return null;
});
if (esbuild !== null) await Promise.all(ENTRIES.map((entry) => join(esbuild.build, dist, entry)));
