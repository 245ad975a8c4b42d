// Builds the page at / into dist/dashboard. Without Vite, as in an install without development
// packages, what is built stays.
import { fileURLToPath } from "node:url";

const configFile = fileURLToPath(new URL("../dashboard/vite.config.mjs", import.meta.url));

try {
  const { build } = await import("vite");
  await build({ configFile });
} catch (error) {
  if (error.code !== "ERR_MODULE_NOT_FOUND") throw error;
  console.warn("The page at / is not built: vite is not installed; run npm ci");
}
