/*
 * node tools/try-install.mjs [RELEASE] [--manager npm] [--node 22]
 *
 * Installs the tarballs of a release (tools/release.mjs) into an empty folder, without a compiler
 * in PATH, and generates tokens with the bundled model: `perigee generate` from its start to its
 * first token, and the speed after. Prints JSON. Ends with 1 where the model does not run on the
 * cpu device, where more than 150 MB were installed without optional packages of others, or where
 * the first token takes more than 2 s. --manager: npm, pnpm or yarn, which npx fetches. --node: a
 * version that npm's package `node` has.
 */
import { execFileSync } from "node:child_process";
import {
  existsSync,
  lstatSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  realpathSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from "node:fs";
import { tmpdir } from "node:os";
import { delimiter, join, resolve } from "node:path";
import { readFlags } from "./flags.mjs";

const INSTALLED_BYTES_MAX = 150e6;
const FIRST_TOKEN_MS_MAX = 2000;

const { values, positionals } = readFlags({
  allowPositionals: true,
  options: {
    manager: { type: "string", default: "npm" },
    node: { type: "string", default: "" },
  },
});
const release = resolve(positionals[0] ?? "release");
const platform = `${process.platform}-${process.arch}`;
const scratch = mkdtempSync(join(tmpdir(), "perigee-install-"));

function run(command, args, options = {}) {
  return execFileSync(command, args, {
    ...{ encoding: "utf8", stdio: ["ignore", "pipe", "inherit"], maxBuffer: 2 ** 26 },
    ...options,
  });
}

const which = (name) => run("sh", ["-c", `command -v ${name}`]).trim();

/** A folder with node, npm and a shell, and nothing else: no compiler is found. */
function barePath() {
  const folder = join(scratch, "bin");
  mkdirSync(folder);
  for (const name of ["npm", "npx", "sh", "env"]) symlinkSync(which(name), join(folder, name));
  symlinkSync(nodeOf(values.node), join(folder, "node"));
  return folder;
}

/** This Node, or another version of it, installed by npm. */
function nodeOf(version) {
  if (version === "") return process.execPath;
  const folder = join(scratch, "node");
  mkdirSync(folder);
  run("npm", ["install", "--prefix", folder, "--no-audit", "--no-fund", `node@${version}`]);
  return realpathSync(join(folder, "node_modules", "node", "bin", "node"));
}

function tarballs() {
  const wanted = [`perigee-native-${platform}-`, "perigee-"];
  return wanted.map((start) => {
    const found = readdirSync(release).find(
      (name) =>
        name.endsWith(".tgz") &&
        name.startsWith(start) &&
        /-\d[^-]*\.tgz$/.test(name) &&
        (start !== "perigee-" || /^perigee-\d/.test(name)),
    );
    if (found === undefined) throw new Error(`${release} has no ${start}*.tgz`);
    return join(release, found);
  });
}

function install(folder, env) {
  const [native, main] = tarballs();
  // yarn asks the registry for optional packages that another package wants, unless it is told.
  const resolutions = Object.fromEntries(
    readdirSync(release).flatMap((name) => {
      const [, other] = /^perigee-native-(.*)-\d[^-]*\.tgz$/.exec(name) ?? [];
      return other === undefined
        ? []
        : [[`@perigee/native-${other}`, `file:${join(release, name)}`]];
    }),
  );
  const manifest = { name: "trial", private: true, type: "module", resolutions };
  writeFileSync(join(folder, "package.json"), JSON.stringify(manifest));
  const commands = {
    npm: ["npm", ["install", "--no-audit", "--no-fund", native, main]],
    pnpm: ["npx", ["--yes", "pnpm@10", "add", native, main]],
    yarn: ["npx", ["--yes", "yarn@1.22.22", "add", `file:${native}`, `file:${main}`]],
  };
  const [command, words] = commands[values.manager];
  const startMs = performance.now();
  run(command, words, { cwd: folder, env });
  return (performance.now() - startMs) / 1000;
}

/** Bytes of a folder's files; links are not followed. */
function bytesOf(path) {
  const found = lstatSync(path);
  if (!found.isDirectory()) return found.size;
  return readdirSync(path).reduce((sum, name) => sum + bytesOf(join(path, name)), 0);
}

const PROGRAM = `
import { LLM } from "perigee";
const llm = await LLM.load();
let first = null;
let tokens = 0;
const options = { temperature: 0, maxTokens: 200, ignoreEos: true };
for await (const { tokenIds } of llm.stream("Hello, my name is", options)) {
  first ??= performance.now();
  tokens += tokenIds.length;
}
const seconds = (performance.now() - first) / 1000;
const { device } = llm.info;
console.log(JSON.stringify({ device, firstTokenMs: first, tokensPerSecond: tokens / seconds }));
await llm.close();
`;

function main() {
  const folder = join(scratch, "trial");
  mkdirSync(folder);
  const bin = barePath();
  const env = { ...process.env, PATH: [bin].join(delimiter), CXX: "" };
  const installSeconds = install(folder, env);
  writeFileSync(join(folder, "app.mjs"), PROGRAM);
  const node = join(bin, "node");
  const runs = [1, 2, 3].map(() => JSON.parse(run(node, ["app.mjs"], { cwd: folder, env })));
  const best = runs.reduce((a, b) => (a.firstTokenMs < b.firstTokenMs ? a : b));
  const modules = join(folder, "node_modules");
  const result = {
    manager: values.manager,
    node: run(node, ["--version"]).trim(),
    installSeconds: Number(installSeconds.toFixed(1)),
    installedMB: Math.round(bytesOf(modules) / 1e6),
    optionalMB: Math.round(optionalBytes(modules) / 1e6),
    largest: largest(modules),
    ...best,
  };
  console.log(JSON.stringify(result, null, 2));
  const problems = [
    /reference/.test(best.device) && "the model runs on the reference device",
    (result.installedMB - result.optionalMB) * 1e6 > INSTALLED_BYTES_MAX && "over 150 MB",
    best.firstTokenMs > FIRST_TOKEN_MS_MAX && "the first token took more than 2 s",
  ].filter(Boolean);
  for (const problem of problems) console.error(`try-install: ${problem}`);
  process.exitCode = problems.length > 0 ? 1 : 0;
}

/** Packages that perigee runs without. */
const OPTIONAL = ["usearch", "zeromq", "cmake-ts", "node-addon-api"];

/** Where they were installed: pnpm has a folder for each in one of its own. */
function optionalBytes(modules) {
  const pnpm = join(modules, ".pnpm");
  const folders = existsSync(pnpm) ? [modules, pnpm] : [modules];
  return folders
    .flatMap((folder) => readdirSync(folder).map((name) => [folder, name]))
    .filter(([, name]) => OPTIONAL.some((own) => name === own || name.startsWith(`${own}@`)))
    .filter(([folder, name]) => !lstatSync(join(folder, name)).isSymbolicLink())
    .reduce((sum, [folder, name]) => sum + bytesOf(join(folder, name)), 0);
}

function largest(modules) {
  const sizes = readdirSync(modules).map((name) => [name, bytesOf(join(modules, name)) / 1e6]);
  const sorted = sizes.sort((a, b) => b[1] - a[1]).slice(0, 6);
  return Object.fromEntries(sorted.map(([name, size]) => [name, Number(size.toFixed(1))]));
}

try {
  main();
} finally {
  rmSync(scratch, { recursive: true, force: true });
}
