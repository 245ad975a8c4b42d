import { existsSync } from "node:fs";
import { dirname, join } from "node:path";
import { bundledModel } from "#engine";

/** A name of a model that comes with the package: a single word, no path. */
const BUNDLED_NAME = /^[a-z0-9][a-z0-9-]*$/;

/** The folder of a bundled model; null: there is none of that name. */
export function bundledPath(name: string): string | null {
  if (!BUNDLED_NAME.test(name)) return null;
  const folder = join(dirname(bundledModel), name);
  return existsSync(join(folder, "config.json")) ? folder : null;
}
