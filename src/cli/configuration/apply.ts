/**
 * Settings of a command from a file and the environment, under those of the command line: a flag
 * wins over a variable, a variable over the file, the file over the default.
 */
import { type Command, InvalidArgumentError, type Option } from "commander";
import { EngineError, shortText } from "#base";
import { SettingOption } from "../flag-option.ts";
import { schemasOf } from "../flags.ts";
import { keysOf, MODEL_KEY, modelArgument, settingsOf } from "./command-path.ts";
import { type AllCommands, type FileSetting, fileSettings } from "./file-settings.ts";
import { valueOfNode } from "./flag-value.ts";
import { readYamlFile, refusal } from "./yaml-tree.ts";

/** Where a value comes from. */
export type Source =
  | { readonly kind: "flag" }
  | { readonly kind: "environment"; readonly variable: string }
  | ({ readonly kind: "file"; readonly file: string } & FileSetting);

/** Sources by key; settings with their default are not among them. */
export type Sources = ReadonlyMap<string, Source>;

export type Environment = Readonly<Record<string, string | undefined>>;

/** Names the file of settings where no flag does. */
export const CONFIG_VARIABLE = "PERIGEE_CONFIG";

/**
 * Flags that replace one another: what one source says of either hides what lower sources say of
 * both, so that the keys of a file cannot be added to those that a flag restricts a server to.
 */
const REPLACE_EACH_OTHER: readonly (readonly string[])[] = [["api-key", "api-key-file"]];

/** `kv-pool-bytes` is PERIGEE_KV_POOL_BYTES. */
export function variableOf(key: string): string {
  return `PERIGEE_${key.toUpperCase().replaceAll("-", "_")}`;
}

/** What settings are taken from beside the command line. */
export interface ConfigurationRequest {
  /** `--config`. */
  readonly file: string | undefined;
  readonly environment: Environment;
  readonly all: AllCommands;
}

/**
 * Gives a parsed command the values of file and environment, and checks them with those of its
 * flags. Throws INVALID_ARGUMENT with the file's line or the variable, and IO without the file.
 */
export async function configure(
  command: Command,
  { file: flag, environment, all }: ConfigurationRequest,
): Promise<Sources> {
  const file = flag ?? environment[CONFIG_VARIABLE];
  if (keysOf(command).size === 0) return new Map();
  const settings = new Settings(command);
  settings.useEnvironment(environment);
  if (file !== undefined && file !== "") {
    const tree = readYamlFile(file);
    settings.useFile(file, await fileSettings({ file, tree }, command, all));
  }
  settings.check();
  return settings.sources;
}

/** The values of one command while they are gathered, from the highest source down. */
class Settings {
  readonly #command: Command;
  readonly #options: ReadonlyMap<string, Option>;
  readonly #sources = new Map<string, Source>();

  constructor(command: Command) {
    this.#command = command;
    this.#options = settingsOf(command);
    for (const [key, option] of this.#options) {
      const source = command.getOptionValueSource(option.attributeName());
      if (source === "cli") this.#sources.set(key, { kind: "flag" });
    }
    const place = this.#modelPlace();
    if (place !== null && command.processedArgs[place] !== undefined) {
      this.#sources.set(MODEL_KEY, { kind: "flag" });
    }
  }

  get sources(): Sources {
    return this.#sources;
  }

  useEnvironment(environment: Environment): void {
    const free = this.#freeKeys();
    for (const key of free) {
      const variable = variableOf(key);
      const text = environment[variable];
      // An empty variable is none, but an empty key is refused: it would leave a server open.
      if (text === undefined || (text === "" && key !== "api-key")) continue;
      this.#sources.set(key, { kind: "environment", variable });
      const option = this.#options.get(key);
      // The keys of a server are read, and refused, where those of its file are.
      if (key === "api-key" && this.#options.has("api-key-file")) continue;
      this.#give(key, option === undefined ? text : textValue(option, { text, variable }), "env");
    }
  }

  useFile(file: string, settings: ReadonlyMap<string, FileSetting>): void {
    const free = this.#freeKeys();
    for (const [key, setting] of settings) {
      const option = this.#options.get(key);
      // Checked even where a flag wins: the line is wrong all the same.
      const value =
        option === undefined ? modelOf(file, setting) : valueOfNode(option, setting.node, file);
      if (!free.has(key)) continue;
      this.#sources.set(key, { kind: "file", file, ...setting });
      this.#give(key, value, "config");
    }
  }

  /** The values together, as the command will check them, but with the place of what is wrong. */
  check(): void {
    if ([...this.#sources.values()].every(({ kind }) => kind === "flag")) return;
    for (const schema of schemasOf(this.#command)) {
      try {
        schema.check(this.#command.opts());
      } catch (thrown) {
        throw this.#withPlace(thrown);
      }
    }
  }

  #withPlace(thrown: unknown): unknown {
    if (!(thrown instanceof EngineError) || thrown.param === null) return thrown;
    const key = thrown.param.replace(/^--/, "");
    const source = this.#sources.get(key);
    const subject = `Cannot use ${thrown.param}: `;
    if (source === undefined || !thrown.message.startsWith(subject)) return thrown;
    const problem = thrown.message.slice(subject.length);
    if (source.kind === "file") return refusal(source.file, source.place, `${key} ${problem}`);
    if (source.kind === "flag") return thrown;
    return new EngineError("INVALID_ARGUMENT", `Cannot use ${source.variable}: ${problem}`, {
      cause: thrown,
      param: source.variable,
    });
  }

  /** Keys that no source has given, and none that replaces them. */
  #freeKeys(): ReadonlySet<string> {
    const model = this.#modelPlace() === null ? [] : [MODEL_KEY];
    const given = [...this.#sources.keys()];
    const hidden = REPLACE_EACH_OTHER.filter((keys) => keys.some((key) => given.includes(key)));
    const taken = new Set([...given, ...hidden.flat()]);
    return new Set([...this.#options.keys(), ...model].filter((key) => !taken.has(key)));
  }

  #give(key: string, value: unknown, source: "env" | "config"): void {
    const option = this.#options.get(key);
    if (option !== undefined) {
      this.#command.setOptionValueWithSource(option.attributeName(), value, source);
      return;
    }
    const place = this.#modelPlace();
    if (place !== null) this.#command.processedArgs[place] = value;
  }

  /** Where the model stands among the arguments; null where it is a flag or missing. */
  #modelPlace(): number | null {
    const model = modelArgument(this.#command);
    if (model === null || this.#options.has(MODEL_KEY)) return null;
    return this.#command.registeredArguments.indexOf(model);
  }
}

function modelOf(file: string, { node }: FileSetting): string {
  if (node.kind === "scalar" && typeof node.value === "string" && node.value !== "") {
    return node.value;
  }
  throw refusal(file, node.place, "model must be a text: a folder, a file or ORG/NAME");
}

/** A variable's text as its flag would read it. Lists may be JSON. */
function textValue(
  option: Option,
  { text, variable }: { readonly text: string; readonly variable: string },
): unknown {
  // The declaration of commander names one type for text and value.
  const parse = option.parseArg as ((text: string, previous: unknown) => unknown) | undefined;
  const isSwitch = !option.required && !option.optional;
  try {
    if (isSwitch) return switchValue(text);
    const list = parse !== undefined && text.startsWith("[") ? jsonTexts(text) : null;
    if (list === null) return parse === undefined ? text : parse(text, undefined);
    if (option instanceof SettingOption || (parse?.length ?? 0) >= 2) {
      return list.reduce<unknown>((all, item) => parse?.(item, all), undefined);
    }
    return parse?.(list.join(","), undefined);
  } catch (thrown) {
    if (!(thrown instanceof InvalidArgumentError)) throw thrown;
    const wanted = thrown.message.replace(/^Wanted /, "must be ").replace(/\.$/, "");
    const value = `current value is ${shortText(text)}${remedyFor(text)}`;
    const message = `Cannot use ${variable}: ${wanted}, ${value}`;
    throw new EngineError("INVALID_ARGUMENT", message, { param: variable });
  }
}

/** Kubernetes sets PERIGEE_PORT in pods beside a Service that is called perigee. */
function remedyFor(text: string): string {
  if (!/^(tcp|udp|sctp):\/\//.test(text)) return "";
  return ", as Kubernetes sets it for a Service; give the pod enableServiceLinks: false";
}

function switchValue(text: string): boolean {
  if (["on", "true", "1"].includes(text)) return true;
  if (["off", "false", "0"].includes(text)) return false;
  throw new InvalidArgumentError("Wanted on or off.");
}

/** The texts of a JSON list; null for any other text. */
function jsonTexts(text: string): string[] | null {
  try {
    const list: unknown = JSON.parse(text);
    return Array.isArray(list) ? list.map(String) : null;
  } catch {
    return null;
  }
}
