/**
 * Search order of NVIDIA's libraries, first choice first:
 *
 *   1. the toolkit that the user names (CUDA_HOME)
 *   2. libraries that the system's loader finds by name: LD_LIBRARY_PATH, then ldconfig's cache
 *   3. toolkits in /usr/local
 *   4. pip's and conda's folders in Python environments: nvidia/cu13/lib, nvidia/cublas/lib, …
 */
import { readdirSync } from "node:fs";
import { join } from "node:path";

/** Locations of CUDA files on this machine, and CUDA settings; the caller provides them. */
export interface CudaSettings {
  /** CUDA_HOME or CUDA_PATH. */
  readonly home?: string;
  /** Roots of Python environments: `<root>/lib/python3.12/site-packages`. */
  readonly pythonRoots?: readonly string[];
  /** Folder of compiled kernels; absent: they are not stored. */
  readonly cacheFolder?: string;
  /** Folder of toolkits; /usr/local by default. */
  readonly toolkitRoot?: string;
  /** Whether steps of one size are captured in graphs; true by default. */
  readonly graphs?: boolean;
}

/** A library by its file names, best version first. */
export interface LibraryName {
  /** `libnvrtc`: the start of its file names. */
  readonly stem: string;
  /** Suffixes to try with the system's loader, e.g. `.so.13`. */
  readonly versions: readonly string[];
  /** More folders, before those of toolkits. */
  readonly folders?: readonly string[];
}

const targets = process.arch === "arm64" ? "targets/sbsa-linux/lib" : "targets/x86_64-linux/lib";

/** Paths and names to try, in this order. Only names for the loader may not exist. */
export function libraryCandidates(name: LibraryName, settings: CudaSettings): readonly string[] {
  const { home, pythonRoots = [], toolkitRoot = "/usr/local" } = settings;
  const named = home === undefined ? [] : toolkitFolders(home);
  const further = [
    ...(name.folders ?? []),
    ...toolkitsIn(toolkitRoot).flatMap(toolkitFolders),
    ...pythonRoots.flatMap(pythonFolders),
  ];
  const found = [
    ...named.flatMap((folder) => filesIn(folder, name)),
    ...name.versions.map((version) => `${name.stem}${version}`),
    ...further.flatMap((folder) => filesIn(folder, name)),
  ];
  return [...new Set(found)];
}

/** Libraries lie beside each other in these folders of a toolkit. */
function toolkitFolders(home: string): string[] {
  return [join(home, "lib64"), join(home, targets), join(home, "lib")];
}

/** /usr/local/cuda, then the versioned ones, newest first. */
function toolkitsIn(root: string): string[] {
  const versioned = namesIn(root).filter((name) => /^cuda(-[\d.]+)?$/.test(name));
  const byVersion = (a: string, b: string) => b.localeCompare(a, "en", { numeric: true });
  const newestFirst = versioned.filter((name) => name !== "cuda").sort(byVersion);
  return (versioned.includes("cuda") ? ["cuda", ...newestFirst] : newestFirst).map((name) =>
    join(root, name),
  );
}

/** Debian's own Python calls its packages' folder dist-packages. */
function pythonFolders(root: string): string[] {
  const libraries = join(root, "lib");
  const packages = namesIn(libraries)
    .filter((name) => /^python3(\.\d+)?$/.test(name))
    .flatMap((name) => ["site-packages", "dist-packages"].map((of) => join(libraries, name, of)));
  const nvidia = packages.flatMap((folder) =>
    namesIn(join(folder, "nvidia")).map((part) => join(folder, "nvidia", part, "lib")),
  );
  return [...nvidia, join(root, targets), libraries];
}

/** Files of a library in a folder: the requested versions, then any other. */
function filesIn(folder: string, { stem, versions }: LibraryName): string[] {
  const names = namesIn(folder).filter((file) => file.startsWith(`${stem}.so`));
  const wanted = versions.map((version) => `${stem}${version}`);
  const others = names.filter((file) => !wanted.includes(file)).sort();
  return [...wanted.filter((file) => names.includes(file)), ...others].map((file) =>
    join(folder, file),
  );
}

/** Entries of a folder; none where there is no such folder or it may not be read. */
function namesIn(folder: string): string[] {
  try {
    return readdirSync(folder);
  } catch {
    return []; // A missing folder has no candidates.
  }
}
