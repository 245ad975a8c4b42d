/*
 * node tools/release.mjs [--tag v0.1.0] [--out release] [--platforms linux-x64,linux-arm64]
 * node tools/release.mjs --publish [--dry-run] [--out release] [--registry ADDRESS]
 *
 * Makes what a release has, in a folder: the tarballs of perigee, of the native libraries of each
 * platform and of @perigee/ai-sdk, SHA256SUMS of them, and software bills of materials (CycloneDX).
 * With --tag all is made from that tag, in a copy of the repository of its own; without, from the
 * checkout as it is, to try it. Linux; other platforms need their compiler (tools/build-native.mjs
 * says which).
 *
 * Ends with 1 where a tarball is larger than 80 MB. tools/try-install.mjs tries the result.
 *
 * --publish sends a folder's tarballs to npm's registry, or another one, what others depend on
 * first; before, it compares all with SHA256SUMS. --dry-run only shows what would be sent.
 */
import { execFileSync } from "node:child_process";
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
import { completeNativePackage, PORTABLE_PLATFORMS } from "./native/package-manifest.mjs";
import { billOfCheckout, billOfManifest } from "./release/bill-of-materials.mjs";
import { aiSdkManifest, publishedManifest } from "./release/manifests.mjs";
import { publishAll, writeSums } from "./release/publish.mjs";
import { buildTypeScript } from "./typescript-build.mjs";

const TARBALL_BYTES_MAX = 80e6;
const root = fileURLToPath(new URL("..", import.meta.url));
const { values } = readFlags({
  options: {
    tag: { type: "string", default: "" },
    out: { type: "string", default: "release" },
    platforms: { type: "string", default: PORTABLE_PLATFORMS.join(",") },
    publish: { type: "boolean", default: false },
    "dry-run": { type: "boolean", default: false },
    registry: { type: "string", default: "" },
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
    const { version } = manifestIn(folder);
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

/** A folder's tarball with another package.json, and with what `change` does to its files. */
function packAs(manifest, { folder, out, change }) {
  const staging = mkdtempSync(join(tmpdir(), "perigee-pack-"));
  try {
    run("tar", ["-xzf", pack(folder, staging), "-C", staging]);
    const unpacked = join(staging, "package");
    writeFileSync(join(unpacked, "package.json"), `${JSON.stringify(manifest, null, 2)}\n`);
    change(unpacked);
    return pack(unpacked, out);
  } finally {
    rmSync(staging, { recursive: true });
  }
}

/** perigee's own tarball: without libraries, which are in packages of their own. */
function packMain(manifest, { out, platforms }) {
  const change = (folder) => {
    rmSync(join(folder, "native", "build"), { recursive: true, force: true });
    for (const platform of platforms) {
      const grammar = join(folder, "native", "grammar", "prebuilt", platform);
      rmSync(grammar, { recursive: true, force: true });
    }
  };
  return packAs(publishedManifest(manifest, platforms), { folder: root, out, change });
}

function packAiSdk(manifest, { out }) {
  const folder = join(root, "packages", "ai-sdk");
  const change = (unpacked) => cpSync(join(root, "LICENSE"), join(unpacked, "LICENSE"));
  return packAs(manifest, { folder, out, change });
}

const manifestIn = (folder) => JSON.parse(readFileSync(join(folder, "package.json"), "utf8"));

function makeAll(out, platforms) {
  const manifest = manifestIn(root);
  const aiSdk = aiSdkManifest(manifestIn(join(root, "packages", "ai-sdk")), manifest);
  rmSync(out, { recursive: true, force: true });
  mkdirSync(out, { recursive: true });
  say("TypeScript");
  buildTypeScript();
  for (const platform of platforms) {
    say(`native libraries of ${platform}`);
    const words = ["tools/build-native.mjs", "--portable", "--platform", platform];
    run(process.execPath, words, root);
    pack(completeNativePackage(root, platform, manifest), out);
  }
  packMain(manifest, { out, platforms });
  packAiSdk(aiSdk, { out });
  say("bills of materials");
  const write = (name, bill) =>
    writeFileSync(join(out, name), `${JSON.stringify(bill, null, 2)}\n`);
  write("perigee.cdx.json", billOfCheckout(root, manifest));
  write("perigee-ai-sdk.cdx.json", billOfManifest(aiSdk));
  cpSync(join(root, "CHANGELOG.md"), join(out, "CHANGELOG.md"));
  const files = readdirSync(out).sort();
  writeSums(out, files);
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
  if (values.publish) {
    publishAll(out, { dryRun: values["dry-run"], registry: values.registry, say });
  } else {
    if (values.tag !== "") fromTag(values.tag, out);
    else makeAll(out, values.platforms.split(","));
    say(`made ${out}`);
  }
} catch (error) {
  say(`failed: ${error.message}`);
  process.exitCode = 1;
}
