import { type CudaSettings, libraryCandidates } from "./library-search.ts";
import { loadedPath } from "./loaded-path.ts";
import { type OpenLibrary, openSystemLibrary } from "./native-library.ts";

/** NCCL, which only runs on several GPUs need. */
export interface NcclLocation {
  readonly path: string;
  /** `2.30.7`. */
  readonly version: string;
}

/** The first NCCL 2 of this machine; null when there is none. */
export function findNccl(
  settings: CudaSettings,
  open: OpenLibrary = openSystemLibrary,
): NcclLocation | null {
  for (const path of libraryCandidates({ stem: "libnccl", versions: [".so.2"] }, settings)) {
    const call = open(path)?.bind("int ncclGetVersion(void *version)") ?? null;
    const version = new Int32Array(1);
    if (call === null || call(version) !== 0) continue;
    return { path: loadedPath(path), version: versionText(version[0] ?? 0) };
  }
  return null;
}

/** 10000 * major + 100 * minor + patch. */
function versionText(version: number): string {
  const minor = Math.floor((version % 10_000) / 100);
  return `${Math.floor(version / 10_000)}.${minor}.${version % 100}`;
}
