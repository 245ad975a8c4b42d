import { homedir } from "node:os";
import { join } from "node:path";
import type { CudaSettings } from "#devices";
import type { EngineOptions } from "#engine/protocol";

/** The options of CUDA, with defaults where they are null. */
export function cudaSettings({ cuda }: EngineOptions): CudaSettings {
  const { home, pythonRoots, cacheFolder, graphs } = cuda;
  const user = homedir();
  return {
    ...(home === null ? {} : { home }),
    pythonRoots: pythonRoots ?? [join(user, ".local"), "/usr/local", "/usr"],
    cacheFolder: cacheFolder ?? join(user, ".cache", "perigee", "kernels"),
    graphs,
  };
}
