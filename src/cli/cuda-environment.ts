import { existsSync } from "node:fs";
import { homedir } from "node:os";
import { delimiter, dirname, join } from "node:path";
import type { LoadOptions } from "#engine";

/** The `cuda` option of `LLM.load` and of `describeDevices`. */
interface CudaPlaces extends NonNullable<LoadOptions["cuda"]> {
  readonly home?: string;
  readonly pythonRoots: string[];
  readonly cacheFolder: string;
  readonly graphs?: boolean;
}

/**
 * Locations of libraries, from CUDA's environment variables and Python environments, and of this
 * user's caches.
 */
export function cudaFromEnvironment(): CudaPlaces {
  const { CUDA_HOME, CUDA_PATH, XDG_CACHE_HOME } = process.env;
  const home = CUDA_HOME || CUDA_PATH;
  const caches = XDG_CACHE_HOME || join(homedir(), ".cache");
  return {
    ...(home ? { home } : {}),
    pythonRoots: pythonRoots(),
    cacheFolder: join(caches, "perigee", "kernels"),
  };
}

/** Active environments, those of the Pythons in PATH, then the system's. */
function pythonRoots(): string[] {
  const { VIRTUAL_ENV, CONDA_PREFIX, PATH = "" } = process.env;
  const active = [VIRTUAL_ENV, CONDA_PREFIX].flatMap((root) => (root ? [root] : []));
  const inPath = PATH.split(delimiter)
    .filter((folder) => folder !== "" && existsSync(join(folder, "python3")))
    .map(dirname);
  const roots = [...active, ...inPath, join(homedir(), ".local"), "/usr/local", "/usr"];
  return [...new Set(roots)];
}
