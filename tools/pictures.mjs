// node tools/pictures.mjs [--check]: writes the pictures of docs from bench/results; with --check
// exits 1 where one is out of date. `npm run docs` does the same with all that is generated.
import { fileURLToPath } from "node:url";
import { settle } from "./generated.mjs";
import { PICTURE_FOLDERS, pictures } from "./pictures/all.mjs";

const root = fileURLToPath(new URL("..", import.meta.url));
const check = process.argv.includes("--check");
const remedy = "run npm run build && node tools/pictures.mjs";
process.exit(settle(root, { documents: pictures(), folders: PICTURE_FOLDERS, check, remedy }));
