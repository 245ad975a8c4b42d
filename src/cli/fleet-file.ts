/** A fleet's description, from a YAML file. */
import { readFileSync, statSync } from "node:fs";
import { parse } from "yaml";
import { EngineError, messageOf } from "#base";

/** Far above any description. */
const BYTES_MAX = 2 ** 20;

/** What a YAML file says. Throws IO where it cannot be read, INVALID_ARGUMENT where it is none. */
export function readFleetFile(path: string): unknown {
  const cannot = `Cannot read fleet ${path}: wanted a YAML file`;
  let text: string;
  try {
    const { size } = statSync(path);
    if (size > BYTES_MAX) throw new Error(`it has ${size} bytes, at most ${BYTES_MAX}`);
    text = readFileSync(path, "utf8");
  } catch (cause) {
    throw new EngineError("IO", `${cannot} (${messageOf(cause)})`, { cause, param: "fleet" });
  }
  try {
    return parse(text);
  } catch (cause) {
    const [line = ""] = messageOf(cause).split("\n");
    throw new EngineError("INVALID_ARGUMENT", `${cannot} (${line})`, { cause, param: "fleet" });
  }
}
