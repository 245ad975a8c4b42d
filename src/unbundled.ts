/**
 * Evaluated before all else of the package: tells a program into which a bundler has copied our
 * code what to do. It starts threads from files of the package and reads libraries and the bundled
 * model beside them; in one file all that is missing, with errors that name no cause.
 */
import { readFileSync } from "node:fs";

const REMEDY =
  "perigee must stay a package of its own, in node_modules, since it starts threads and loads " +
  "native libraries from its files; mark it as external: esbuild --external:perigee (or " +
  '--packages=external), vite and rolldown build.rollupOptions.external: ["perigee"], webpack ' +
  'externals: { perigee: "module perigee" }, Next.js serverExternalPackages: ["perigee"]';

/** Whether `url`, of a file in src or dist, is in our package; bundlers of CommonJS give none. */
export function isInPackage(url: string | undefined): boolean {
  if (url === undefined) return false;
  try {
    const manifest: unknown = JSON.parse(readFileSync(new URL("../package.json", url), "utf8"));
    return (manifest as { name?: unknown } | null)?.name === "perigee";
  } catch {
    return false; // No file of ours is there.
  }
}

if (!isInPackage(import.meta.url)) throw new Error(`Cannot run from a bundle: ${REMEDY}`);
