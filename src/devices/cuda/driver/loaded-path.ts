import { readFileSync } from "node:fs";
import { basename } from "node:path";

/**
 * Path that a library of this process was loaded from, symbolic links followed: the loader chooses
 * the folder for a bare name, and only Linux's map of the process reports it. `name` itself when
 * the path is unknown.
 */
export function loadedPath(name: string): string {
  let maps: string;
  try {
    maps = readFileSync("/proc/self/maps", "utf8");
  } catch {
    return name; // Not Linux.
  }
  const stem = basename(name).replace(/\.so.*$/, ".so");
  const paths = maps.split("\n").map((line) => line.slice(line.indexOf("/")));
  return paths.find((path) => basename(path).startsWith(stem)) ?? name;
}
