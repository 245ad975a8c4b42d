/** Certificates and keys, which are given as files: a list of processes shows none of them. */
import { readFile } from "node:fs/promises";
import { EngineError } from "#base";
import { fileProblem } from "./file-problem.ts";

/** A certificate and its key, in PEM. */
export interface PemPair {
  readonly cert: string;
  readonly key: string;
}

/** The text of a PEM file; null: none is given. Throws IO. */
export async function readPem(file: string | undefined): Promise<string | null> {
  if (file === undefined) return null;
  try {
    return await readFile(file, "utf8");
  } catch (cause) {
    throw fileProblem({ action: "read", file, wanted: "a PEM file", cause });
  }
}

/** A file and the flag that names it. */
interface PemFile {
  readonly flag: string;
  readonly file: string | undefined;
}

/** Null: neither is given. Throws INVALID_ARGUMENT for one without the other, and IO. */
export async function readPemPair(certFile: PemFile, keyFile: PemFile): Promise<PemPair | null> {
  const [cert, key] = [await readPem(certFile.file), await readPem(keyFile.file)];
  if (cert !== null && key !== null) return { cert, key };
  if (cert === key) return null;
  const missing = cert === null ? certFile.flag : keyFile.flag;
  throw new EngineError(
    "INVALID_ARGUMENT",
    `Cannot use TLS: ${certFile.flag} and ${keyFile.flag} go together, ${missing} is missing`,
    { param: missing },
  );
}
