/*
 * node tools/release.mjs [--tag v0.1.0] [--out release] [--platforms linux-x64,linux-arm64]
 *
 * Makes what a release has, in a folder: the tarballs of perigee and of the native libraries of
 * each platform, SHA256SUMS of them, and a software bill of materials (CycloneDX). With --tag all
 * is made from that tag, in a copy of the repository of its own; without, from the checkout as it
 * is, to try it. Linux; other platforms need their compiler (tools/build-native.mjs says which).
 *
 * Ends with 1 where a tarball is larger than 80 MB. tools/try-install.mjs tries the result.
 */
import { execFileSync } from "node:child_process";
import { createHash } from "node:crypto";
import {
  cpSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  statSync,
  writeFileSync,
} from "node:fs";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";
import { fileURLToPath } from "node:url";
import { readFlags } from "./flags.mjs";
import {
  completeNativePackage,
  nativeName,
  PORTABLE_PLATFORMS,
} from "./native/package-manifest.mjs";

const TARBALL_BYTES_MAX = 80e6;
const root = fileURLToPath(new URL("..", import.meta.url));
const { values } = readFlags({
  options: {
    tag: { type: "string", default: "" },
    out: { type: "string", default: "release" },
    platforms: { type: "string", default: PORTABLE_PLATFORMS.join(",") },
  },
});

const say = (text) => console.error(`release: ${text}`);

/** Runs a program with its messages shown; returns what it prints on standard output. */
function run(command, args, cwd) {
  const options = { cwd, encoding: "utf8", maxBuffer: 2 ** 26 };
  return execFileSync(command, args, { ...options, stdio: ["ignore", "pipe", "inherit"] });
}

/** Everything again in a copy that has the tag's files alone. */
function fromTag(tag, out) {
  const folder = mkdtempSync(join(tmpdir(), "perigee-release-"));
  try {
    say(`${tag}: a copy of the repository`);
    run("git", ["clone", "--quiet", "--branch", tag, "--depth", "1", `file://${root}`, folder]);
    const { version } = JSON.parse(readFileSync(join(folder, "package.json"), "utf8"));
    if (tag !== `v${version}`) throw new Error(`the tag of version ${version} must be v${version}`);
    say("dependencies");
    run("npm", ["ci", "--ignore-scripts", "--no-audit", "--no-fund"], folder);
    const words = ["tools/release.mjs", "--out", out, "--platforms", values.platforms];
    run(process.execPath, words, folder);
  } finally {
    rmSync(folder, { recursive: true });
  }
}

/** `npm pack` of a folder into another one; the tarball's path. */
function pack(folder, into) {
  const words = ["pack", "--ignore-scripts", "--json", "--pack-destination", into];
  const [{ filename }] = JSON.parse(run("npm", words, folder));
  return join(into, filename.replace("@", "").replace("/", "-"));
}

/**
 * perigee's own tarball: the checkout's, with the native packages as optional dependencies, and
 * without what a package does not use. Checkouts must not have them: they are not published yet.
 */
function packMain(manifest, { out, platforms }) {
  const staging = mkdtempSync(join(tmpdir(), "perigee-pack-"));
  try {
    run("tar", ["-xzf", pack(root, staging), "-C", staging]);
    const folder = join(staging, "package");
    const { devDependencies, scripts, ...rest } = manifest;
    const native = platforms.map((platform) => [nativeName(platform), manifest.version]);
    const text = JSON.stringify(
      {
        ...rest,
        scripts: { postinstall: scripts.postinstall },
        optionalDependencies: { ...rest.optionalDependencies, ...Object.fromEntries(native) },
      },
      null,
      2,
    );
    writeFileSync(join(folder, "package.json"), `${text}\n`);
    rmSync(join(folder, "native", "build"), { recursive: true, force: true });
    for (const platform of platforms) {
      const grammar = join(folder, "native", "grammar", "prebuilt", platform);
      rmSync(grammar, { recursive: true, force: true });
    }
    return pack(folder, out);
  } finally {
    rmSync(staging, { recursive: true });
  }
}

function sha256(file) {
  return createHash("sha256").update(readFileSync(file)).digest("hex");
}

function makeAll(out, platforms) {
  const manifest = JSON.parse(readFileSync(join(root, "package.json"), "utf8"));
  rmSync(out, { recursive: true, force: true });
  mkdirSync(out, { recursive: true });
  say("TypeScript");
  run(process.execPath, ["node_modules/typescript/bin/tsc", "-p", "tsconfig.build.json"], root);
  run(process.execPath, ["tools/declaration-texts.mjs"], root);
  for (const platform of platforms) {
    say(`native libraries of ${platform}`);
    const words = ["tools/build-native.mjs", "--portable", "--platform", platform];
    run(process.execPath, words, root);
    pack(completeNativePackage(root, platform, manifest), out);
  }
  packMain(manifest, { out, platforms });
  say("bill of materials");
  const sbom = run("npm", ["sbom", "--sbom-format", "cyclonedx", "--omit", "dev"], root);
  writeFileSync(join(out, "perigee.cdx.json"), sbom);
  cpSync(join(root, "CHANGELOG.md"), join(out, "CHANGELOG.md"));
  const files = readdirSync(out).sort();
  const sums = files.map((file) => `${sha256(join(out, file))}  ${file}\n`);
  writeFileSync(join(out, "SHA256SUMS"), sums.join(""));
  let isTooLarge = false;
  for (const file of files) {
    const { size } = statSync(join(out, file));
    console.log(`${(size / 1e6).toFixed(2).padStart(8)} MB  ${file}`);
    isTooLarge ||= file.endsWith(".tgz") && size > TARBALL_BYTES_MAX;
  }
  if (isTooLarge) throw new Error("a tarball is larger than 80 MB");
}

try {
  const out = resolve(values.out);
  if (values.tag !== "") fromTag(values.tag, out);
  else makeAll(out, values.platforms.split(","));
  say(`made ${out}`);
} catch (error) {
  say(`failed: ${error.message}`);
  process.exitCode = 1;
}
