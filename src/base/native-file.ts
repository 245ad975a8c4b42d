/**
 * Where native libraries lie: built on this machine, else in the package of this platform that
 * npm installs beside ours, else in ours.
 */
import { existsSync, readFileSync } from "node:fs";
import { createRequire } from "node:module";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";

/** Where is looked; replaced by tests. */
export interface NativePlaces {
  /** Our package's folder. */
  readonly root: string;
  /** E.g. `linux-x64`. */
  readonly platform: string;
  /** The path of another package's package.json; throws where it is not installed. */
  readonly resolve: (name: string) => string;
}

/** The folder of package.json, at the same relative path from src/base and from dist/base. */
function ownPlaces(): NativePlaces {
  return {
    root: fileURLToPath(new URL("../..", import.meta.url)),
    platform: `${process.platform}-${process.arch}`,
    resolve: createRequire(import.meta.url).resolve,
  };
}

/** The package that has prebuilt libraries of this platform. */
export function nativePackageName(
  platform: string = `${process.platform}-${process.arch}`,
): string {
  return `@perigee/native-${platform}`;
}

/** The path of `libperigee-NAME`, with this system's ending; null: it is nowhere. */
export function findNativeFile(name: string, places: NativePlaces = ownPlaces()): string | null {
  const file = `libperigee-${name}.${extensionOf(places.platform)}`;
  const folders = [
    join(places.root, "native", "build", places.platform),
    packageFolder(places),
    join(places.root, "native", "grammar", "prebuilt", places.platform),
  ];
  const found = folders.find((folder) => folder !== null && existsSync(join(folder, file)));
  return found === undefined || found === null ? null : join(found, file);
}

function extensionOf(platform: string): string {
  if (platform.startsWith("darwin")) return "dylib";
  return platform.startsWith("win32") ? "dll" : "so";
}

/** Of our own version alone: the functions of another one may take other arguments. */
function packageFolder({ root, platform, resolve }: NativePlaces): string | null {
  try {
    const manifest = resolve(`${nativePackageName(platform)}/package.json`);
    return versionOf(manifest) === versionOf(join(root, "package.json")) ? dirname(manifest) : null;
  } catch {
    return null; // Not installed: a checkout, or npm was told to omit optional packages.
  }
}

function versionOf(manifest: string): unknown {
  return (JSON.parse(readFileSync(manifest, "utf8")) as { version?: unknown }).version;
}

/**
 * How a missing native library is had on this machine, in words that end a sentence. `musl`: the
 * system's C library is musl, for which none are prebuilt.
 */
export function nativeRemedy(musl: boolean = isMusl()): string {
  if (process.platform === "linux" && musl) {
    return (
      "this system has musl, for which no libraries are prebuilt: install a compiler " +
      "(apk add g++ linux-headers) and run: npm rebuild perigee, or use an image with glibc"
    );
  }
  const compiler = process.platform === "darwin" ? "xcode-select --install" : "apt install g++";
  return (
    `install ${nativePackageName()} (npm install without --omit=optional), or a C++ compiler ` +
    `(${compiler}) and run: npm rebuild perigee, in a checkout npm run build`
  );
}

/** Node tells the version of glibc that it runs on; with musl there is none. */
function isMusl(): boolean {
  // The declaration of Node calls it an object.
  const report = process.report?.getReport() as { header?: { glibcVersionRuntime?: string } };
  return report.header?.glibcVersionRuntime === undefined;
}
