// Compiles native/grammar (Rust), the library that structured output runs on, into
// native/build/<platform>-<arch>/libperigee-grammar.{so,dylib,dll}.
//
//   node tools/build-grammar.mjs [--if-missing] [--prebuilt]
//
// Linux on x64 comes with the library (native/grammar/prebuilt), so nothing has to be built there;
// --prebuilt makes that file anew. --if-missing builds only where no library is there, and without
// cargo says so and ends well: everything but structured output runs.
import { spawnSync } from "node:child_process";
import {
  copyFileSync,
  existsSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  renameSync,
  statSync,
  writeFileSync,
} from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";

const ROOT = fileURLToPath(new URL("..", import.meta.url));
const SOURCES = join(ROOT, "native", "grammar");
const PLATFORM = `${process.platform}-${process.arch}`;
const PREBUILT = join(SOURCES, "prebuilt", PLATFORM);
const OUTPUT = join(ROOT, "native", "build", PLATFORM);

/** What cargo calls the library here, and what we do. */
function fileNames() {
  switch (process.platform) {
    case "win32":
      return { made: "perigee_grammar.dll", ours: "libperigee-grammar.dll" };
    case "darwin":
      return { made: "libperigee_grammar.dylib", ours: "libperigee-grammar.dylib" };
    default:
      return { made: "libperigee_grammar.so", ours: "libperigee-grammar.so" };
  }
}

function hasCargo() {
  return spawnSync("cargo", ["--version"], { stdio: "ignore" }).status === 0;
}

/** Where cargo keeps sources of crates: a folder for each registry, called after its address. */
function registriesOf(home) {
  const sources = join(home, "registry", "src");
  return existsSync(sources) ? readdirSync(sources).map((name) => join(sources, name)) : [];
}

/** Cargo's folder lies outside the checkout: it is large, and no part of it. */
function build(folder) {
  const { made, ours } = fileNames();
  const target = process.env.CARGO_TARGET_DIR ?? join(tmpdir(), "perigee-grammar-target");
  // Names of this machine's folders are nobody's business.
  const home = process.env.CARGO_HOME ?? join(process.env.HOME ?? "", ".cargo");
  const renamed = [
    [home, "cargo"],
    ...registriesOf(home).map((registry) => [registry, "crates"]),
    [SOURCES, "grammar"],
  ];
  const flags = renamed.map(([path, name]) => `--remap-path-prefix=${path}=${name}`);
  const result = spawnSync("cargo", ["build", "--release", "--locked"], {
    cwd: SOURCES,
    stdio: "inherit",
    env: { ...process.env, CARGO_TARGET_DIR: target, RUSTFLAGS: flags.join(" ") },
  });
  if (result.status !== 0) throw new Error("cargo build failed");
  mkdirSync(folder, { recursive: true });
  const library = join(folder, ours);
  // Under a temporary name first: a process may have the old library open.
  const part = `${library}.${process.pid}.part`;
  copyFileSync(join(target, "release", made), part);
  renameSync(part, library);
  console.log(`perigee: built ${ours}, ${statSync(library).size} bytes`);
}

/** Crates that are part of the library, with where their sources are. */
function linkedCrates() {
  const asked = spawnSync("cargo", ["metadata", "--format-version", "1", "--locked"], {
    cwd: SOURCES,
    encoding: "utf8",
    maxBuffer: 2 ** 26,
  });
  if (asked.status !== 0) throw new Error("cargo metadata failed");
  const { packages, resolve } = JSON.parse(asked.stdout);
  const tree = spawnSync("cargo", ["tree", "--edges", "normal", "--prefix", "none"], {
    cwd: SOURCES,
    encoding: "utf8",
  });
  const used = new Set(
    tree.stdout.split("\n").map((line) => line.split(" ").slice(0, 2).join(" ")),
  );
  return packages
    .filter(({ id, name, version }) => id !== resolve.root && used.has(`${name} v${version}`))
    .sort((a, b) => (a.name < b.name ? -1 : 1));
}

/** The licence of a crate: MIT's text where there is a choice. */
function licenceOf({ manifest_path: manifest }) {
  const folder = dirname(manifest);
  const files = readdirSync(folder).filter((name) => /^(licen[cs]e|copying|unlicense)/i.test(name));
  const file = files.find((name) => /mit/i.test(name)) ?? files.sort()[0];
  return file === undefined ? null : readFileSync(join(folder, file), "utf8").trim();
}

/** What the licences of the crates in the prebuilt library ask for. */
function writeNotices() {
  const texts = new Map();
  for (const crate of linkedCrates()) {
    const text = licenceOf(crate) ?? `Licence: ${crate.license}. ${crate.repository ?? ""}`.trim();
    const users = texts.get(text) ?? [];
    texts.set(text, [...users, `${crate.name} ${crate.version} (${crate.license})`]);
  }
  const parts = [...texts].map(([text, users]) => `${users.join("\n")}\n\n${text}\n`);
  const head = "The grammar library contains the following crates, under these licences.\n";
  writeFileSync(
    join(SOURCES, "prebuilt", "NOTICES.txt"),
    [head, ...parts].join(`\n${"-".repeat(78)}\n`),
  );
}

function main() {
  const { ours } = fileNames();
  const isThere = [OUTPUT, PREBUILT].some((folder) => existsSync(join(folder, ours)));
  if (process.argv.includes("--if-missing")) {
    if (isThere) return;
    if (!hasCargo()) {
      console.warn(
        `perigee: no grammar library for ${PLATFORM}, so structured output will be refused. ` +
          "Install Rust (https://rustup.rs) and run: node tools/build-grammar.mjs",
      );
      return;
    }
  }
  if (!process.argv.includes("--prebuilt")) return build(OUTPUT);
  build(PREBUILT);
  writeNotices();
}

try {
  main();
} catch (error) {
  console.error(`perigee: cannot build the grammar library: ${error.message}`);
  process.exit(1);
}
