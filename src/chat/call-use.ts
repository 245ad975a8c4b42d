/** The effect of tools on one conversation's outputs. */
import { type CallFormatName, callFormat } from "./call-formats.ts";
import type { CallableTool, TagFormat } from "./forced-calls.ts";
import type { CallContext, OutputParser } from "./output-part.ts";
import { callFormatOf } from "./template-format.ts";

/** A format of calls, or none: then nothing is read. */
export type CallSetting = CallFormatName | "none";

/** The setting, where `auto` is the format that the template shows, if it shows one. */
export function callSetting(setting: CallSetting, template: string | null): CallSetting {
  const shown = setting === "auto" && template !== null ? callFormatOf(template) : null;
  return shown ?? setting;
}

/** Whether the model chooses, must call one of the tools, or must call this one. */
export type CallChoice = "auto" | "required" | { readonly name: string };

/** How tools are called. */
export interface CallUseOptions {
  readonly setting: CallSetting;
  readonly choice: CallChoice;
  /** At most one call, where calls are forced. */
  readonly onlyOne: boolean;
  /** A fresh id for a call. */
  newId(): string;
}

/** The effect of tools. */
export interface CallUse {
  /** A parser for one sequence; null: all text is content. */
  readonly createParser: (() => OutputParser) | null;
  /** Marks in its text that may be special tokens of a tokenizer. */
  readonly marks: readonly string[];
  /** The structural tag that forces calls; null: the model chooses. */
  readonly forced: { readonly type: "structural_tag"; readonly format: TagFormat } | null;
}

/**
 * How calls of the tools are read, and forced where the choice demands it: the whole output is
 * calls then, in the setting's format, and in Hermes' where that names none. A named tool must be
 * one of them.
 */
export function callUse(tools: readonly CallableTool[], options: CallUseOptions): CallUse {
  const { setting, choice, onlyOne, newId } = options;
  const schemas = new Map(tools.map(({ name, parameters }) => [name, parameters]));
  const context: CallContext = { tools: schemas, newId };
  if (choice === "auto") {
    if (setting === "none") return { createParser: null, marks: [], forced: null };
    return { ...parserOf(setting, context), forced: null };
  }
  const name = setting === "auto" || setting === "none" ? "hermes" : setting;
  const named = choice === "required" ? null : choice.name;
  const callable = named === null ? tools : tools.filter((tool) => tool.name === named);
  const format = callFormat(name).forced(callable, onlyOne || named !== null);
  return { ...parserOf(name, context), forced: { type: "structural_tag", format } };
}

function parserOf(
  name: CallFormatName,
  context: CallContext,
): Pick<CallUse, "createParser" | "marks"> {
  const format = callFormat(name);
  return { createParser: () => format.createParser(context), marks: format.marks };
}
