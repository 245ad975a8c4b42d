import { existsSync, statSync } from "node:fs";
import { dirname, join } from "node:path";
import type { EngineOptions } from "#engine/protocol";

/** Networks that a model's folder may have, in the order in which they are taken. */
const NETWORKS = ["redrafter", "medusa"] as const;

/**
 * The options with what the kind `auto` stands for: lookup, and beside it the first network that
 * lies in the model's folder; of a mock, nothing. Other options are returned as they are.
 */
export function withAutoDrafts(options: EngineOptions, modelPath: string): EngineOptions {
  const { speculative, mock } = options;
  if (speculative.kind !== "auto") return options;
  if (mock !== null) return { ...options, speculative: { ...speculative, kind: "off" } };
  const folder = statSync(modelPath).isDirectory() ? modelPath : dirname(modelPath);
  const there = NETWORKS.find((kind) => existsSync(join(folder, "drafters", kind)));
  return { ...options, speculative: { ...speculative, kind: there ?? "lookup", mixed: true } };
}
