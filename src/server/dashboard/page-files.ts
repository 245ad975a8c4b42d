/** The files of the page, as the build made them; read once, then answered from memory. */
import { createHash } from "node:crypto";
import { readdir, readFile } from "node:fs/promises";
import { extname, join } from "node:path";
import { fileURLToPath } from "node:url";
import { gzipSync } from "node:zlib";

/** Where the build puts files whose names tell their contents. */
const ASSETS = "dashboard/assets";

const TYPES: Readonly<Record<string, string>> = {
  ".html": "text/html; charset=utf-8",
  ".js": "text/javascript; charset=utf-8",
  ".css": "text/css; charset=utf-8",
  ".svg": "image/svg+xml",
};

/** One file, as it is answered. */
export interface PageFile {
  readonly type: string;
  readonly bytes: Buffer;
  readonly gzipped: Buffer;
  /** Changes with the contents. */
  readonly etag: string;
}

/** All files of the page. */
export interface PageFiles {
  readonly index: PageFile;
  /** By name. */
  readonly assets: ReadonlyMap<string, PageFile>;
}

/** Reads the page; null where it was not built. */
export async function readPage(folder: string = builtFolder()): Promise<PageFiles | null> {
  try {
    const index = await readPageFile(join(folder, "index.html"));
    const names = (await readdir(join(folder, ASSETS))).filter((name) => extname(name) in TYPES);
    const files = await Promise.all(names.map((name) => readPageFile(join(folder, ASSETS, name))));
    return { index, assets: new Map(names.map((name, at) => [name, files[at] ?? index])) };
  } catch (error) {
    if (isMissing(error)) return null;
    throw error;
  }
}

/** From source, the build's folder is elsewhere. */
function builtFolder(): string {
  const fromSource = import.meta.url.endsWith(".ts");
  const folder = fromSource ? "../../../dist/dashboard" : "../../dashboard";
  return fileURLToPath(new URL(folder, import.meta.url));
}

async function readPageFile(path: string): Promise<PageFile> {
  const bytes = await readFile(path);
  const digest = createHash("sha256").update(bytes).digest("base64url").slice(0, 22);
  const type = TYPES[extname(path)] ?? "application/octet-stream";
  return { type, bytes, gzipped: gzipSync(bytes, { level: 9 }), etag: `"${digest}"` };
}

function isMissing(error: unknown): boolean {
  return error instanceof Error && "code" in error && error.code === "ENOENT";
}
