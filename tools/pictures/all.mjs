// All pictures of docs, by path. Each page's are in a folder of its name, in a module of its own.
import { picture } from "../../dist/charts/index.js";
import { fleetPictures } from "./fleet.mjs";
import { gpuPictures } from "./gpu.mjs";
import { kvCachePictures } from "./kv-cache.mjs";
import { modelPictures } from "./models.mjs";
import { ragPictures } from "./rag.mjs";
import { replayPictures } from "./replay.mjs";
import { reproductionPictures } from "./reproduction.mjs";
import { researchPictures } from "./research.mjs";
import { routerPictures } from "./routers.mjs";
import { speculationPictures } from "./speculation.mjs";

/** @returns {Map<string, string>} path from the root → SVG */
export function pictures() {
  const all = [
    ...gpuPictures(),
    ...replayPictures(),
    ...researchPictures(),
    ...kvCachePictures(),
    ...modelPictures(),
    ...speculationPictures(),
    ...ragPictures(),
    ...routerPictures(),
    ...fleetPictures(),
    ...reproductionPictures(),
  ];
  return new Map(all.map(([name, charts]) => [`docs/${name}`, picture(charts)]));
}

/** Whose pictures are made here, so that one which no script makes any more is found. */
export const PICTURE_FOLDERS = [
  ...["design", "fleet", "kv-cache", "models", "rag", "replay", "reproduction", "research"],
  ...["routers-compared", "speculation"],
].map((name) => ({ path: `docs/${name}`, ends: ".svg" }));
