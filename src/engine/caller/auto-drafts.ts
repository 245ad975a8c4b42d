import { existsSync, statSync } from "node:fs";
import { dirname, join } from "node:path";
import { type EngineOptions, isPipelined } from "#engine/protocol";

/** Networks that a model's folder may have, in the order in which they are taken. */
const NETWORKS = ["redrafter", "medusa"] as const;

/**
 * The options with what the kind `auto` stands for: lookup, and beside it the first network that
 * lies in the model's folder; of a mock, and of a model in several processes, nothing. Other
 * options are returned as they are.
 */
export function withAutoDrafts(options: EngineOptions, modelPath: string): EngineOptions {
  const { speculative, mock } = options;
  if (speculative.kind !== "auto") return options;
  if (mock !== null || isPipelined(options))
    return { ...options, speculative: { ...speculative, kind: "off" } };
  const folder = statSync(modelPath).isDirectory() ? modelPath : dirname(modelPath);
  const there = NETWORKS.find((kind) => existsSync(join(folder, "drafters", kind)));
  return { ...options, speculative: { ...speculative, kind: there ?? "lookup", mixed: true } };
}
