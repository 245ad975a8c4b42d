/** Cost models by name, or from a file. */
import { readFileSync } from "node:fs";
import { EngineError, messageOf } from "#base";
import { parseCostFile } from "#engine/protocol";
import { fitCost } from "./cost-fit.ts";
import type { CostModel } from "./cost-model.ts";
import { COST_PRESETS, costPreset, isCostPreset } from "./cost-presets.ts";

/**
 * A preset, or a JSON file with the factors of a cost model or the points to fit them to. Throws IO
 * for a file that cannot be read, and INVALID_ARGUMENT for one that is something else.
 */
export function loadCostModel(nameOrFile: string): CostModel {
  if (isCostPreset(nameOrFile)) return costPreset(nameOrFile);
  const { points, step, ...machine } = parseCostFile(readJson(nameOrFile));
  return { ...machine, step: step ?? fitCost(points ?? []).cost };
}

function readJson(path: string): unknown {
  const cannot = `Cannot use cost model ${path}: wanted ${COST_PRESETS.join(", ")} or a JSON file`;
  let text: string;
  try {
    text = readFileSync(path, "utf8");
  } catch (cause) {
    throw new EngineError("IO", `${cannot} (${messageOf(cause)})`, { cause, param: "costModel" });
  }
  try {
    return JSON.parse(text);
  } catch (cause) {
    const message = `${cannot}, this one is none (${messageOf(cause)})`;
    throw new EngineError("INVALID_ARGUMENT", message, { cause, param: "costModel" });
  }
}
