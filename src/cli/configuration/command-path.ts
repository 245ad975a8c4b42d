/** Commands as a tree, and which of their flags a file of settings may name. */
import type { Argument, Command, Option } from "commander";
import { keyOf } from "./flag-value.ts";

/** The key of the model that many commands take as their argument. */
export const MODEL_KEY = "model";

/** Flags that ask for something else than the command's work. */
const NOT_SETTINGS = new Set(["version", "verbose", "config", "print-config"]);

/** The commands from the program's own to this one. */
export function pathTo(command: Command): readonly Command[] {
  return command.parent === null ? [command] : [...pathTo(command.parent), command];
}

/** `perigee bench serve`. */
export function nameOf(command: Command): string {
  return pathTo(command)
    .map((each) => each.name())
    .join(" ");
}

/** The flags of a command that are settings, by their key. */
export function settingsOf(command: Command): ReadonlyMap<string, Option> {
  const settings = new Map<string, Option>();
  for (const option of command.options) {
    const key = keyOf(option);
    if (!option.hidden && !NOT_SETTINGS.has(key)) settings.set(key, option);
  }
  return settings;
}

/** The command's model argument; null: it takes none. */
export function modelArgument(command: Command): Argument | null {
  const found = command.registeredArguments.find((argument) => argument.name() === MODEL_KEY);
  return found ?? null;
}

/** All keys of a command: its flags, and its model. */
export function keysOf(command: Command): ReadonlySet<string> {
  const model = modelArgument(command) === null ? [] : [MODEL_KEY];
  return new Set([...settingsOf(command).keys(), ...model]);
}

/** The command and all below it. */
export function* withDescendants(command: Command): Generator<Command> {
  yield command;
  for (const child of command.commands) yield* withDescendants(child);
}

/** The subcommands of a command that may have settings, by name. */
export function sectionsOf(command: Command): ReadonlyMap<string, Command> {
  const settable = command.commands.filter((child) =>
    [...withDescendants(child)].some((each) => keysOf(each).size > 0),
  );
  return new Map(settable.map((child) => [child.name(), child]));
}
