/** Clients of other projects, where `test/peers/clients.sh` has installed them. */
import { existsSync } from "node:fs";
import { createRequire } from "node:module";
import { resolve } from "node:path";
import { pathToFileURL } from "node:url";

const folder = resolve("node_modules/.cache/clients");

/** Why the package's tests are skipped; null: it is installed. */
export function missing(name: string): string | null {
  const isThere = existsSync(`${folder}/complete`) && existsSync(`${folder}/node_modules/${name}`);
  return isThere ? null : `${name} is missing: run test/peers/clients.sh`;
}

/** What the type checker knows nothing of: types of a package that may be missing. */
type Untyped = ReturnType<typeof JSON.parse>;

/** A module of an installed package. */
export async function clientModule(specifier: string): Promise<Untyped> {
  const path = createRequire(`${folder}/package.json`).resolve(specifier);
  return import(pathToFileURL(path).href);
}
