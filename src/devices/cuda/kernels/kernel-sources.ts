import { readFileSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { EngineError } from "#base";
import type { KernelText } from "./kernel-text.ts";

/** Folder of the sources; at the same relative path from src and from dist. */
export const kernelFolder = fileURLToPath(new URL("../../../../native/cuda/", import.meta.url));

const include = /^\s*#\s*include\s+"([^"]+)"/gm;

/**
 * A file of kernels with the headers that it includes, directly or through others: no more, so that
 * a change of a header recompiles only its users. Throws DEVICE_UNAVAILABLE when a file is missing:
 * the package is not whole.
 */
export function readKernel(file: string, folder: string = kernelFolder): KernelText {
  const name = `${file}.cu`;
  const text = read(folder, name);
  const headers: Record<string, string> = {};
  const open = includesOf(text);
  for (let header = open.pop(); header !== undefined; header = open.pop()) {
    if (headers[header] !== undefined) continue;
    const body = read(folder, header);
    headers[header] = body;
    open.push(...includesOf(body));
  }
  return { path: `native/cuda/${name}`, text, headers };
}

function includesOf(text: string): string[] {
  return [...text.matchAll(include)].map(([, name = ""]) => name);
}

function read(folder: string, name: string): string {
  try {
    return readFileSync(join(folder, name), "utf8");
  } catch (cause) {
    throw new EngineError(
      "DEVICE_UNAVAILABLE",
      `Cannot compile kernels for cuda: the file native/cuda/${name} wanted, it cannot be read; ` +
        "install perigee again",
      { cause },
    );
  }
}
