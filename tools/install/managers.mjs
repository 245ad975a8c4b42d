// Package managers, each with how it installs tarballs into a folder.
import { mkdirSync } from "node:fs";
import { join } from "node:path";
import { pathToFileURL } from "node:url";
import { output, put } from "./workplace.mjs";

const files = (packages) => packages.map(([name, path]) => `${name}@file:${path}`);

/** Versions that were tried; they come from the registry when a trial asks for them. */
const PNPM = "pnpm@10";
const YARN_CLASSIC = "yarn@1.22.22";
const YARN = "@yarnpkg/cli-dist@4";

const npx = (version, words) => ["npx", ["--yes", version, ...words]];

/** Yarn 4 reads neither .npmrc nor the usual variables. */
function yarnSettings(linker) {
  const registry = output("npm", ["config", "get", "registry"]).trim();
  const proxy = process.env.HTTPS_PROXY ?? process.env.https_proxy;
  const authority = process.env.NODE_EXTRA_CA_CERTS;
  return [
    ...[`nodeLinker: ${linker}`, "enableTelemetry: false", "enableGlobalCache: false"],
    ...["enableImmutableInstalls: false", `npmRegistryServer: ${JSON.stringify(registry)}`],
    ...(proxy === undefined ? [] : [`httpsProxy: ${JSON.stringify(proxy)}`]),
    ...(authority === undefined ? [] : [`httpsCaFilePath: ${JSON.stringify(authority)}`]),
    "",
  ].join("\n");
}

const npm = (packages, flags = []) => [
  "npm",
  ["install", "--no-audit", "--no-fund", ...flags, ...packages.map(([, path]) => path)],
];

const ARM64 = ["--force", "--ignore-scripts", "--cpu=arm64", "--os=linux", "--libc=glibc"];

/** What installs packages; `linker`, for Yarn 4, is where they are put. */
const MANAGERS = {
  npm: { command: npm },
  "npm --ignore-scripts": { command: (packages) => npm(packages, ["--ignore-scripts"]) },
  // Packages of another platform, whose scripts cannot run here.
  "npm for arm64": { command: (packages) => npm(packages, ARM64) },
  pnpm: { command: (packages) => npx(PNPM, ["add", ...packages.map(([, path]) => path)]) },
  "yarn 1": { command: (packages) => npx(YARN_CLASSIC, ["add", ...files(packages)]) },
  "yarn 4": {
    linker: "node-modules",
    command: (packages) => npx(YARN, ["add", ...files(packages)]),
  },
  "yarn 4 PnP": { linker: "pnp", command: (packages) => npx(YARN, ["add", ...files(packages)]) },
};

const isOwn = (name) => name.endsWith(`-${process.platform}-${process.arch}`);

/**
 * In place of another platform's package: from a registry yarn leaves that out, but refuses it as a
 * file. Returns its path from the folder.
 */
function emptyPackage(folder, name) {
  const path = `./elsewhere/${name.split("/").at(-1)}`;
  mkdirSync(join(folder, path), { recursive: true });
  put(join(folder, path), "package.json", JSON.stringify({ name, version: "0.0.0" }));
  return path;
}

/**
 * Installs packages, `[name, path or name@version]`, into a folder. `all` are the tarballs of a
 * release: yarn asks the registry for what another package wants optionally, unless it is told.
 * Returns the seconds that it took, the environment of programs there, and the file of the command
 * `perigee`; null where it is in no folder.
 */
export function install({ manager, folder, env, packages, all }) {
  const { command, linker } = MANAGERS[manager];
  const resolutions = Object.fromEntries(
    [...all]
      .filter(([name]) => name.startsWith("@perigee/native-"))
      .map(([name, path]) => [name, `file:${isOwn(name) ? path : emptyPackage(folder, name)}`]),
  );
  const manifest = { name: "trial", version: "1.0.0", private: true, type: "module", resolutions };
  put(folder, "package.json", JSON.stringify(manifest));
  if (linker !== undefined) {
    put(folder, ".yarnrc.yml", yarnSettings(linker));
    put(folder, "yarn.lock", ""); // A project of its own, whatever is above it.
  }
  const [program, words] = command(packages);
  const startMs = performance.now();
  output(program, words, { cwd: folder, env });
  const seconds = (performance.now() - startMs) / 1000;
  const main = join(folder, "node_modules", "perigee", "dist", "cli", "main.js");
  if (linker !== "pnp") return { seconds, env, main };
  // As `yarn node` sets it.
  const loader = pathToFileURL(join(folder, ".pnp.loader.mjs")).href;
  const hooks = ["--require", join(folder, ".pnp.cjs"), "--experimental-loader", loader];
  return { seconds, env: { ...env, NODE_OPTIONS: hooks.join(" ") }, main: null };
}
