import { existsSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";

/** A single word, no path. */
const BUNDLED_NAME = /^[a-z0-9][a-z0-9-]*$/;

const FOLDER = fileURLToPath(new URL("../../models/", import.meta.url));

/** The folder of a model that comes with the package (`pocket`); null: there is none so called. */
export function bundledPath(name: string): string | null {
  if (!BUNDLED_NAME.test(name)) return null;
  const folder = join(FOLDER, name);
  return existsSync(join(folder, "config.json")) ? folder : null;
}
