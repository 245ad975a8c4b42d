// Linking against an old version of glibc with the tools of a newer system: stubs of its libraries
// have each symbol with the newest version that the old one had, so that what is linked asks for no
// newer one. What has no such version is in native/portable.
import { spawnSync } from "node:child_process";
import { mkdirSync, writeFileSync } from "node:fs";
import { basename, join } from "node:path";

/** The oldest that Node 20 itself runs on. */
export const GLIBC_MAX = "2.28";

/** Each where a compiler has it; the loader's name is that of its processor. */
const STUBBED = ["libc.so.6", "libm.so.6", "ld-linux-x86-64.so.2", "ld-linux-aarch64.so.1"];

function output(command, args) {
  const ran = spawnSync(command, args, { encoding: "utf8", maxBuffer: 2 ** 26 });
  if (ran.status === 0) return ran.stdout;
  throw new Error(`${command} ${args[0]} failed: ${ran.stderr || (ran.error?.message ?? "")}`);
}

/** 2.4 is older than 2.17. */
export function isNewer(version, than) {
  const [a, b] = [version, than].map((text) => text.split(".").map(Number));
  for (let part = 0; part < Math.max(a.length, b.length); part++) {
    if ((a[part] ?? 0) !== (b[part] ?? 0)) return (a[part] ?? 0) > (b[part] ?? 0);
  }
  return false;
}

/** Symbols with versions of a library: those that it has, or those that it asks for. */
function versionedSymbols(library, { undefinedOnly }) {
  const symbols = [];
  for (const line of output("readelf", ["-W", "--dyn-syms", library]).split("\n")) {
    const [, , size, type, , , section, name = ""] = line.trim().split(/\s+/);
    const [, symbol, version] = /^(\w+)@{1,2}GLIBC_([\d.]+)$/.exec(name) ?? [];
    if (symbol === undefined || (section === "UND") !== undefinedOnly) continue;
    symbols.push({ symbol, version, size: Number(size), isData: type === "OBJECT" });
  }
  return symbols;
}

/** The newest version of each symbol that is not newer than `max`. */
function oldSymbols(library, max) {
  const best = new Map();
  for (const found of versionedSymbols(library, { undefinedOnly: false })) {
    if (isNewer(found.version, max)) continue;
    const known = best.get(found.symbol);
    if (known === undefined || isNewer(found.version, known.version)) best.set(found.symbol, found);
  }
  return best;
}

/** Writes the stub of one library, and returns its path. */
function makeStub(compiler, library, folder) {
  const symbols = [...oldSymbols(library, GLIBC_MAX).values()];
  const name = basename(library);
  const source = join(folder, `${name}.s`);
  const script = join(folder, `${name}.map`);
  const lines = symbols.flatMap(({ symbol, size, isData }) => [
    `.globl ${symbol}`,
    `.type ${symbol}, ${isData ? "%object" : "%function"}`,
    ...(isData ? [`.size ${symbol}, ${size}`] : []),
    `${symbol}:`,
    ".zero 8",
  ]);
  // GNU's assembler takes % before a type for every processor.
  writeFileSync(source, `.data\n${lines.join("\n")}\n.section .note.GNU-stack,"",%progbits\n`);
  const versions = [...new Set(symbols.map(({ version }) => version))];
  const nodes = versions.map((version) => {
    const own = symbols.filter((each) => each.version === version);
    return `GLIBC_${version} { global: ${own.map(({ symbol }) => `${symbol};`).join(" ")} };`;
  });
  writeFileSync(script, `${nodes.join("\n")}\n`);
  const stub = join(folder, name);
  output(compiler, [
    ...["-shared", "-nostdlib", `-Wl,-soname,${name}`, `-Wl,--version-script=${script}`],
    ...["-o", stub, source],
  ]);
  return stub;
}

/**
 * Flags that link objects with GCC's static run-time libraries and stubs of an old glibc. `folder`
 * receives the stubs.
 */
export function oldGlibcFlags(compiler, folder) {
  mkdirSync(folder, { recursive: true });
  const find = (name) => output(compiler, [`-print-file-name=${name}`]).trim();
  // What a compiler does not have it names as it was asked.
  const libraries = STUBBED.map(find).filter((path) => path.includes("/"));
  const stubs = libraries.map((library) => makeStub(compiler, library, folder));
  // Twice: the static libraries need each other.
  const runtime = ["-l:libstdc++.a", "-lgcc_eh", "-lgcc"];
  // Functions that each library has a copy of, such as atexit.
  const own = find("libc_nonshared.a");
  return ["-nodefaultlibs", "-Wl,-z,defs", ...runtime, ...runtime, own, ...stubs];
}

/** The newest version of glibc that a library asks for; "0" for none. */
export function glibcOf(library) {
  const versions = versionedSymbols(library, { undefinedOnly: true }).map((each) => each.version);
  return versions.reduce((most, version) => (isNewer(version, most) ? version : most), "0");
}
