/** Variables that nothing reads, whose names are close to those of settings. */
import type { Command } from "commander";
import { nearestName } from "../nearest-name.ts";
import { CONFIG_VARIABLE, type Environment, variableOf } from "./apply.ts";
import { keysOf, withDescendants } from "./command-path.ts";
import type { AllCommands } from "./file-settings.ts";

const PREFIX = "PERIGEE_";
/** What Kubernetes sets for Services in the namespace of a pod. */
const OF_SERVICES = /_SERVICE_(HOST|PORT)|_PORT$|_PORT_\d+_/;
/** Variables that are no flags. */
const OTHERS = [CONFIG_VARIABLE, "PERIGEE_EMBEDDER_API_KEY"];

/** A variable, and the one that was probably meant. */
export interface MisspeltVariable {
  readonly variable: string;
  readonly meant: string;
}

/**
 * The variables that look like settings of perigee and are none of any command. Names that are
 * close to none are left alone: tools of others may use the prefix.
 */
export async function misspeltVariables(
  environment: Environment,
  command: Command,
  all: AllCommands,
): Promise<readonly MisspeltVariable[]> {
  const own = variablesOf([command]);
  const unknown = Object.keys(environment).filter(
    (name) => name.startsWith(PREFIX) && !own.has(name) && !OF_SERVICES.test(name),
  );
  if (unknown.length === 0) return [];
  const known = variablesOf(withDescendants(await all()));
  return unknown.flatMap((variable) => {
    if (known.has(variable)) return [];
    const names = [...known].map((name) => name.slice(PREFIX.length));
    const meant = nearestName(variable.slice(PREFIX.length), names);
    return meant === null ? [] : [{ variable, meant: `${PREFIX}${meant}` }];
  });
}

function variablesOf(commands: Iterable<Command>): ReadonlySet<string> {
  const keys = [...commands].flatMap((command) => [...keysOf(command)]);
  return new Set([...keys.map(variableOf), ...OTHERS]);
}
