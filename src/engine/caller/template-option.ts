import { readFileSync } from "node:fs";
import { EngineError } from "#base";

/** Markup that every Jinja template needs to render a message. */
const MARKUP = /\{[{%]/;

/**
 * The chat template that an option names: the content of a file, or the option itself where it is
 * a template's text. Throws INVALID_ARGUMENT for a file that is not there, so that a mistyped name
 * is never served as a template.
 */
export function readTemplateOption(option: string): string {
  try {
    return readFileSync(option, "utf8");
  } catch (cause) {
    if (MARKUP.test(option)) return option;
    throw new EngineError(
      "INVALID_ARGUMENT",
      `Cannot use chatTemplate: must be a file with a Jinja template, or a template's text ` +
        `(with {{ or {%), current value is ${shown(option)}, ${reasonOf(cause)}`,
      { cause, param: "chatTemplate" },
    );
  }
}

/** The start of a value, enough to find the mistake. */
function shown(option: string): string {
  const LENGTH = 100;
  return JSON.stringify(option.length > LENGTH ? `${option.slice(0, LENGTH)}…` : option);
}

function reasonOf(cause: unknown): string {
  const code = cause instanceof Error && "code" in cause ? String(cause.code) : "";
  if (code === "EISDIR") return "which is a folder";
  return code === "EACCES" ? "which this user may not read" : "which is no file";
}
