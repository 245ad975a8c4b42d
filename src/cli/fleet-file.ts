/** A fleet's description, from a YAML file. */
import { EngineError } from "#base";
import { type FleetConfig, parseFleet } from "#simulator";
import { refusal } from "./configuration/settings-text.ts";
import { plainValue, readYamlFile, type YamlNode } from "./configuration/yaml-tree.ts";

/**
 * The fleet of a YAML file. Throws IO where it cannot be read, and INVALID_ARGUMENT with file and
 * line where it describes no fleet.
 */
export function readFleet(file: string): FleetConfig {
  const tree = readYamlFile(file);
  try {
    return parseFleet(plainValue(tree));
  } catch (thrown) {
    if (!(thrown instanceof EngineError)) throw thrown;
    const name = thrown.param ?? "";
    const problem = thrown.message.replace(/^Cannot use [^:]*: /, "");
    throw refusal(file, placeOf(tree, name.split(".")), `${name} ${problem}`.trim());
  }
}

/** Where the file says the field, or the innermost group of it that is there. */
function placeOf(node: YamlNode, [name, ...rest]: readonly string[]): YamlNode["place"] {
  const entry = node.kind === "map" && name !== undefined ? node.entries.get(name) : undefined;
  if (entry === undefined) return node.place;
  return rest.length === 0 ? entry.place : placeOf(entry.node, rest);
}
