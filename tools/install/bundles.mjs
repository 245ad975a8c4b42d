// Bundles of a program that uses an installed perigee, by each bundler.
import { rmSync, symlinkSync } from "node:fs";
import { createRequire } from "node:module";
import { dirname, join } from "node:path";
import { output, put } from "./workplace.mjs";

const APP = `
async function main() {
  const { LLM } = await import("perigee");
  const llm = await LLM.load();
  const [{ completions }] = await llm.generate("Hello", { maxTokens: 3, temperature: 0 });
  console.log("tokens", completions[0].tokenIds.length);
  await llm.close();
}
main().catch((error) => { console.error(error); process.exitCode = 1; });
`;
/** Bundled code is evaluated when it starts, where a program imports it at its top. */
const INLINE = APP.replace('const { LLM } = await import("perigee");', "").replace(
  "async function",
  'import { LLM } from "perigee";\nasync function',
);

const WEBPACK = { webpack: "5.113.0", "webpack-cli": "7.3.1" };

/** A package's folder among the checkout's dependencies, for bundlers that it has itself. */
function ownPackage(root, name) {
  const { resolve } = createRequire(join(root, "package.json"));
  return dirname(resolve(`${name}/package.json`));
}

/** What a bundler is called with; the result is the file out.mjs or out.cjs. */
const BUNDLERS = {
  esbuild: ({ root, isInline, extension }) => {
    const bin = join(ownPackage(root, "esbuild"), "bin", "esbuild");
    const format = extension === "cjs" ? "cjs" : "esm";
    const words = ["app.mjs", "--bundle", "--platform=node", `--outfile=out.${extension}`];
    words.push(`--format=${format}`, "--log-level=error");
    words.push(...(isInline ? ["--loader:.node=empty"] : ["--external:perigee"]));
    return [bin, words];
  },
  vite: ({ root, folder, isInline, extension }) => {
    const config = {
      logLevel: "error",
      ssr: { noExternal: isInline ? true : [], external: isInline ? [] : ["perigee"] },
      build: {
        ...{ ssr: "app.mjs", outDir: ".", emptyOutDir: false, target: "node20" },
        rollupOptions: {
          output: {
            format: extension === "cjs" ? "cjs" : "es",
            entryFileNames: `out.${extension}`,
          },
        },
      },
    };
    put(folder, "vite.config.mjs", `export default ${JSON.stringify(config)};`);
    return ["node", [join(ownPackage(root, "vite"), "bin", "vite.js"), "build"]];
  },
  // Inline it stops at paths of files that are no modules, such as that of the bundled model.
  webpack: ({ folder, workplace, extension }) => {
    const isModule = extension === "mjs";
    const config = {
      ...{ mode: "production", target: "node20", entry: "./app.mjs", devtool: false },
      externals: { perigee: "module perigee" },
      experiments: { outputModule: true },
      output: { path: folder, filename: `out.${extension}`, module: isModule },
      externalsPresets: { node: true },
    };
    put(folder, "webpack.config.mjs", `export default ${JSON.stringify(config)};`);
    return ["node", [join(webpackFolder(workplace), "webpack", "bin", "webpack.js")]];
  },
};

let webpack = null;

/** Installed for trials alone. */
function webpackFolder(workplace) {
  if (webpack === null) {
    const folder = workplace.empty("webpack");
    const names = Object.entries(WEBPACK).map(([name, version]) => `${name}@${version}`);
    output("npm", ["install", "--prefix", folder, "--no-audit", "--no-fund", ...names]);
    webpack = join(folder, "node_modules");
  }
  return webpack;
}

/**
 * Bundles the program in a new folder with the node_modules of an installed one. Inline: with our
 * code inside. Returns the folder and the bundle's name there.
 */
export function bundle({ bundler, extension, isInline, installed, root, workplace }) {
  const folder = workplace.empty(`${bundler}-${extension}-${isInline ? "inline" : "external"}`);
  put(folder, "package.json", '{"name":"bundle","private":true,"type":"module"}');
  put(folder, "app.mjs", isInline ? INLINE : APP);
  symlinkSync(join(installed, "node_modules"), join(folder, "node_modules"));
  const how = { root, folder, isInline, extension, workplace };
  const [command, words] = BUNDLERS[bundler](how);
  output(command, words, { cwd: folder });
  rmSync(join(folder, "app.mjs"));
  return { folder, file: `out.${extension}` };
}
