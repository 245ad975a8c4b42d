/** API keys from sources hidden from other users of the machine: a file, or the environment. */
import { open } from "node:fs/promises";
import { EngineError } from "#base";
import { fileProblem } from "./file-problem.ts";

/** The sources of API keys. */
export interface KeySources {
  /** All values of `--api-key`. `ps` shows them to all users of the machine. */
  readonly flags: readonly string[];
  /** `--api-key-file`. */
  readonly file: string | undefined;
  readonly environment: Readonly<Record<string, string | undefined>>;
  readonly warn: (message: string) => void;
}

/** For `--help`. */
export const API_KEY_FILE_HELP =
  "File with API keys, one per line; # begins a comment. (default: the key in PERIGEE_API_KEY)";

const VARIABLE = "PERIGEE_API_KEY";
const FILE_BYTES_MAX = 1 << 20;
const OTHERS = 0o077;

/**
 * The keys of flags and file; if neither is given, the key in PERIGEE_API_KEY. The list is empty
 * only if no source is given: an empty file or variable throws INVALID_ARGUMENT, since a server
 * without keys is open to all. Throws IO if the file cannot be read.
 */
export async function readApiKeys({
  flags,
  file,
  environment,
  warn,
}: KeySources): Promise<string[]> {
  const inFile = file === undefined ? [] : await keysOfFile(file, "--api-key-file", warn);
  const given = [...flags, ...inFile];
  const inVariable = environment[VARIABLE];
  if (given.length > 0 || inVariable === undefined) return given;
  checkKey(inVariable, VARIABLE);
  return [inVariable];
}

/** For `--help`. */
export const ADMIN_KEY_FILE_HELP =
  "File with keys that also show texts of prompts on the page at /, one per line.";

/** The admin keys of flags and file. Throws as `readApiKeys` does. */
export async function readAdminKeys(
  flags: readonly string[],
  file: string | undefined,
  warn: (message: string) => void,
): Promise<string[]> {
  return [
    ...flags,
    ...(file === undefined ? [] : await keysOfFile(file, "--admin-key-file", warn)),
  ];
}

/**
 * The secrets of a fleet, from the file of `--cluster-secret-file`: the first one is sent, all are
 * accepted, so that it can be changed while workers run. Throws as `readApiKeys` does.
 */
export async function readClusterSecrets(
  file: string | undefined,
  warn: (message: string) => void,
): Promise<string[]> {
  return file === undefined ? [] : await keysOfFile(file, "--cluster-secret-file", warn);
}

/** The key that workers of other engines want: the first of its file; null: none is given. */
export async function readWorkerKey(
  file: string | undefined,
  warn: (message: string) => void,
): Promise<string | null> {
  if (file === undefined) return null;
  return (await keysOfFile(file, "--worker-api-key-file", warn))[0] ?? null;
}

async function keysOfFile(
  file: string,
  flag: string,
  warn: (message: string) => void,
): Promise<string[]> {
  const lines = (await readKeyFile(file, flag, warn)).split(/\r?\n/).map((line) => line.trim());
  const keys: string[] = [];
  for (const [index, line] of lines.entries()) {
    if (line === "" || line.startsWith("#")) continue;
    checkKey(line, `${file}, line ${index + 1}`);
    keys.push(line);
  }
  if (keys.length > 0) return keys;
  throw new EngineError(
    "INVALID_ARGUMENT",
    `Cannot use ${flag}: ${file} must have a key, current value is none; without keys the ` +
      "server would be open to all",
    { param: flag },
  );
}

async function readKeyFile(
  file: string,
  flag: string,
  warn: (message: string) => void,
): Promise<string> {
  try {
    await using handle = await open(file);
    const { mode } = await handle.stat();
    if (process.getuid !== undefined && (mode & OTHERS) !== 0) {
      warn(
        `Other users of this machine may read ${file}; remove that permission: chmod 600 ${file}`,
      );
    }
    const bytes = Buffer.alloc(FILE_BYTES_MAX + 1);
    let length = 0;
    // A pipe, as in `--api-key-file <(command)`, is read in pieces.
    for (let read = 1; read > 0 && length < bytes.length; length += read) {
      read = (await handle.read(bytes, length, bytes.length - length)).bytesRead;
    }
    if (length > FILE_BYTES_MAX) throw new Error(`it has more than ${FILE_BYTES_MAX} bytes`);
    return bytes.toString("utf8", 0, length);
  } catch (cause) {
    throw fileProblem({ action: "read", file, wanted: `the file of ${flag}`, cause });
  }
}

/** Rejects keys that a header cannot carry: no client could send them. Never prints the key. */
function checkKey(key: string, place: string): void {
  if (/^[\x21-\x7e]+$/.test(key)) return;
  const value = key === "" ? "empty" : "another text";
  throw new EngineError(
    "INVALID_ARGUMENT",
    `Cannot use the API key of ${place}: must be visible ASCII characters without spaces, ` +
      `current value is ${value}`,
    { param: "apiKey" },
  );
}
