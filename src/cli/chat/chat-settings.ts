/** Sampling settings that change while one chats: `/set temperature 0.2`. */
import { Command, InvalidArgumentError, type Option } from "commander";
import { EngineError, nearestName } from "#base";
import type { GenerateOptions } from "#engine";
import type { FlagValues, SchemaFlags } from "../flags.ts";

type Parse = (text: string, previous: unknown) => unknown;

/** The flags of a command line, and what was set since. */
export class ChatSettings {
  readonly #flags: SchemaFlags;
  readonly #options: ReadonlyMap<string, Option>;
  readonly #fallback: GenerateOptions;
  #values: FlagValues;

  /** `fallback`: what is used where neither flag nor setting says. */
  constructor(flags: SchemaFlags, values: FlagValues, fallback: GenerateOptions) {
    const command = new Command();
    flags.addTo(command, "");
    this.#flags = flags;
    this.#options = new Map(command.options.map((option) => [option.name(), option]));
    this.#values = values;
    this.#fallback = fallback;
  }

  /** For the next answer. */
  get options(): GenerateOptions {
    return { ...this.#fallback, ...this.#flags.collect(this.#values) };
  }

  /** Names of all settings. */
  get names(): readonly string[] {
    return [...this.#options.keys()];
  }

  /** Sets one by its flag's name and text. Throws INVALID_ARGUMENT; nothing is set then. */
  set(name: string, text: string): void {
    const option = this.#options.get(name.replace(/^--/, ""));
    if (option === undefined) throw this.#unknown(name);
    const values = { ...this.#values, [option.attributeName()]: parsed(option, text) };
    this.#flags.check(values);
    this.#values = values;
  }

  #unknown(name: string): EngineError {
    const near = nearestName(name, this.#options.keys());
    const remedy = near === null ? "/set alone lists all" : `did you mean ${near}?`;
    return new EngineError("INVALID_ARGUMENT", `Cannot set ${name}: it is no setting; ${remedy}`);
  }
}

function parsed(option: Option, text: string): unknown {
  // The declaration of commander names one type for text and value.
  const parse = (option.parseArg as Parse | undefined) ?? ((word: string) => word);
  try {
    return parse(text, undefined);
  } catch (thrown) {
    if (!(thrown instanceof InvalidArgumentError)) throw thrown;
    const wanted = thrown.message.replace(/^Wanted /, "must be ").replace(/\.$/, "");
    throw new EngineError(
      "INVALID_ARGUMENT",
      `Cannot set ${option.name()}: ${wanted}, current value is ${text}`,
    );
  }
}
