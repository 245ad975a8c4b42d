/** What tells the weight files of two models apart without reading them whole. */
import { createHash } from "node:crypto";
import { type FileHandle, open, readdir, realpath, stat } from "node:fs/promises";
import { basename, join } from "node:path";

/** Pieces of each weight file that are read, evenly spread, and the size of one. */
const SAMPLES = 256;
/** The same where a file's time of writing cannot tell: 8 MiB of each file. */
const SAMPLES_ALONE = 2048;
const SAMPLE_BYTES = 4096;
/** Files up to here are read whole: 10 ms for 16 MiB, 86 ms for 2048 pieces (Node 20, Zen 4). */
const WHOLE_BYTES_MAX = 16 * 2 ** 20;
/** Weight files in a hub's cache are links to files named by their SHA-256. */
const CONTENT_NAME = /^[0-9a-f]{64}$/;

/**
 * A digest for each weight file of a folder or of a single file, by their names: of its size and
 * pieces of its contents. With `fileTimes` there are fewer pieces, and its time of writing counts,
 * unless its name is the digest of its contents. `tokenizer`: of tokenizer.json, too. Rejects where
 * a file cannot be read.
 */
export async function weightsIdentity(
  path: string,
  { fileTimes, tokenizer = false }: { readonly fileTimes: boolean; readonly tokenizer?: boolean },
): Promise<readonly string[]> {
  const files: string[] = [];
  for (const file of await weightFiles(path, tokenizer))
    files.push(await fileIdentity(file, fileTimes));
  return files;
}

async function weightFiles(path: string, tokenizer: boolean): Promise<string[]> {
  if ((await stat(path)).isFile()) return [path];
  const names = await readdir(path);
  const weights = names.filter((name) => /\.(safetensors|gguf)$/.test(name));
  if (tokenizer && names.includes("tokenizer.json")) weights.push("tokenizer.json");
  return weights.toSorted().map((name) => join(path, name));
}

/** A digest of a file's size, its time of writing or digest name, and its pieces. */
async function fileIdentity(path: string, fileTimes: boolean): Promise<string> {
  const name = basename(await realpath(path));
  const file = await open(path);
  try {
    const { size, mtimeMs } = await file.stat();
    const hash = createHash("sha256").update(`${size} `);
    if (fileTimes) hash.update(CONTENT_NAME.test(name) ? name : String(mtimeMs));
    const whole = size <= WHOLE_BYTES_MAX ? await file.readFile() : null;
    const piece = Buffer.alloc(SAMPLE_BYTES);
    for (const position of samplePositions(size, fileTimes ? SAMPLES : SAMPLES_ALONE)) {
      if (whole !== null) hash.update(whole.subarray(position, position + SAMPLE_BYTES));
      else hash.update(piece.subarray(0, await readAt(file, piece, position)));
    }
    return hash.digest("hex");
  } finally {
    await file.close();
  }
}

/** Where the pieces begin: the first at the file's start, the last one ends where it ends. */
function samplePositions(size: number, samples: number): Set<number> {
  const last = Math.max(0, size - SAMPLE_BYTES);
  const positions = Array.from({ length: samples }, (_, index) =>
    Math.floor((last * index) / (samples - 1)),
  );
  return new Set(positions); // In a small file many are the same.
}

async function readAt(file: FileHandle, piece: Buffer, position: number): Promise<number> {
  const { bytesRead } = await file.read(piece, 0, piece.length, position);
  return bytesRead;
}
