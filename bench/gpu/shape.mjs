/** The shape that the tables of this folder measure; its work is counted by the product. */
import { existsSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { readShape as shapeOf } from "../../dist/cli/bench/model-work.js";

export {
  attentionFLOPs,
  decodeWork,
  limitMs,
  prefillWork,
  requestsLimitSeconds,
} from "../../dist/cli/bench/model-work.js";

/** The folder with the config.json of Llama-3.1-8B. */
export const llamaFolder = fileURLToPath(new URL("./llama-3.1-8b", import.meta.url));

/** The sizes in a config.json, of a folder or a file. */
export function readShape(path = llamaFolder) {
  const file = path.endsWith(".json") ? path : join(path, "config.json");
  if (!existsSync(file)) throw new Error(`Cannot read ${file}: wanted the config.json of a Llama`);
  const shape = shapeOf(JSON.parse(readFileSync(file, "utf8")));
  if (shape === null) throw new Error(`Cannot count the work of ${file}: wanted a kind of Llama`);
  return shape;
}
