/** The file of `--plot`: known to be writable before a run that may take minutes. */
import { closeSync, lstatSync, openSync, rmSync, statSync, writeFileSync } from "node:fs";
import { InvalidArgumentError } from "commander";
import { type Chart, picture } from "#charts";
import { fileProblem } from "../file-problem.ts";

/** A name that says what is in the file: others would be opened by programs for other pictures. */
export function plotPath(path: string): string {
  if (path.toLowerCase().endsWith(".svg") || isStream(path)) return path;
  throw new InvalidArgumentError(
    "Wanted a file that ends in .svg: pictures are SVG, which browsers open.",
  );
}

/**
 * Writes charts to the file; does nothing without one. Throws IO at once where it cannot be
 * written: an existing file keeps its contents until there is a picture, and none is left behind
 * where there will be none.
 */
export function plotTo(path: string | undefined): (charts: () => readonly Chart[]) => void {
  if (path === undefined) return () => {};
  if (!isStream(path)) writing(path, () => tryOut(path));
  return (charts) => writing(path, () => writeFileSync(path, picture(charts())));
}

/** A pipe or a device: opening it is not free of consequences. */
function isStream(path: string): boolean {
  try {
    const found = statSync(path);
    return !found.isFile() && !found.isDirectory();
  } catch {
    return false; // whether it can be there is found out by trying
  }
}

function tryOut(path: string): void {
  const wasThere = lstatSync(path, { throwIfNoEntry: false }) !== undefined;
  closeSync(openSync(path, "a"));
  if (!wasThere) rmSync(path, { force: true });
}

function writing(file: string, action: () => void): void {
  try {
    action();
  } catch (cause) {
    const wanted = "for --plot a path in a folder that is there and may be written";
    throw fileProblem({ action: "write", file, wanted, cause });
  }
}
