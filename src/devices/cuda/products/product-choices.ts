/**
 * The fastest cuBLASLt algorithm of each GEMM, on disk beside the compiled kernels, so that a GPU
 * is timed once. A changed or truncated file is ignored, and an algorithm that the library does not
 * accept for a shape is not used (`Matmul.accepted`): a wrong file costs speed at most.
 */
import { createHash } from "node:crypto";
import { readFileSync, renameSync, rmSync, statSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import type { CudaVersion } from "#devices/cuda/driver";
import { ALGORITHM_BYTES, type MatmulAlgorithm } from "./matmul.ts";

/** Versions that the fastest algorithm depends on besides the GEMM. */
export interface ChoiceTarget {
  readonly gpu: string;
  readonly cublasVersion: CudaVersion;
  readonly driverVersion: CudaVersion;
}

/** A choice in the file. */
interface StoredChoice {
  /** cublasLtMatmulAlgo_t in hexadecimal. */
  readonly code: string;
  readonly workspaceBytes: number;
}

/** Far more than a model's GEMMs need; a larger file is not from this cache. */
const fileBytesMax = 1 << 20;
const choicesMax = 4096;

/** Algorithms by GEMM. A folder that cannot be written keeps them for this process only. */
export class ProductChoices {
  readonly #path: string | null;
  readonly #choices: Map<string, MatmulAlgorithm>;

  /** `folder`: one that only this user writes to; null keeps nothing on disk. */
  constructor(folder: string | null, target: ChoiceTarget) {
    const { gpu, cublasVersion, driverVersion } = target;
    const parts = JSON.stringify([gpu, cublasVersion, driverVersion]);
    const hash = createHash("sha256").update(parts).digest("hex").slice(0, 32);
    this.#path = folder === null ? null : join(folder, `products-${hash}.json`);
    this.#choices = this.#path === null ? new Map() : readChoices(this.#path);
  }

  /** The algorithm of a GEMM; null: not timed yet. */
  find(key: string): MatmulAlgorithm | null {
    return this.#choices.get(key) ?? null;
  }

  keep(key: string, algorithm: MatmulAlgorithm): void {
    if (this.#choices.size >= choicesMax) return;
    this.#choices.set(key, algorithm);
    if (this.#path !== null) writeChoices(this.#path, this.#choices);
  }
}

/** Empty for a file that is missing or not valid. */
function readChoices(path: string): Map<string, MatmulAlgorithm> {
  try {
    if (statSync(path).size > fileBytesMax) return new Map();
    const content: unknown = JSON.parse(readFileSync(path, "utf8"));
    if (typeof content !== "object" || content === null) return new Map();
    const entries = Object.entries(content).slice(0, choicesMax);
    return new Map(
      entries.flatMap(([key, stored]) => (isChoice(stored) ? [[key, decode(stored)]] : [])),
    );
  } catch {
    return new Map(); // Missing, as on a first start; or not JSON.
  }
}

/** Readers see the whole file or none. Of two writers the last one's choices stay. */
function writeChoices(path: string, choices: ReadonlyMap<string, MatmulAlgorithm>): void {
  const part = `${path}.${process.pid}.part`;
  const content = Object.fromEntries([...choices].map(([key, each]) => [key, encode(each)]));
  try {
    writeFileSync(part, JSON.stringify(content), { mode: 0o600 });
    renameSync(part, path);
  } catch {
    rmSync(part, { force: true }); // A full disk: timed again at the next start.
  }
}

function encode({ code, workspaceBytes }: MatmulAlgorithm): StoredChoice {
  return { code: Buffer.from(code).toString("hex"), workspaceBytes };
}

function decode({ code, workspaceBytes }: StoredChoice): MatmulAlgorithm {
  return { code: Uint8Array.from(Buffer.from(code, "hex")).buffer, workspaceBytes };
}

function isChoice(value: unknown): value is StoredChoice {
  if (typeof value !== "object" || value === null) return false;
  if (!("code" in value) || !("workspaceBytes" in value)) return false;
  const { code, workspaceBytes } = value;
  const digits = new RegExp(`^[0-9a-f]{${2 * ALGORITHM_BYTES}}$`);
  return typeof code === "string" && digits.test(code) && Number.isSafeInteger(workspaceBytes);
}
