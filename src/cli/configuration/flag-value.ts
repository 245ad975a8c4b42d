/** Values of a file as values of flags, with the line and the remedy where they are none. */
import { InvalidArgumentError, type Option } from "commander";
import { nearestName, shortText } from "#base";
import { bytesOfText, isSizeFlag, SIZE_WANTED, sizeProblem } from "../byte-size.ts";
import {
  type FieldSchema,
  isNumeric,
  kindsOf,
  NO_VALUE,
  SettingOption,
  SwitchOption,
} from "../flag-option.ts";
import { refusal } from "./settings-text.ts";
import { plainValue, type YamlNode } from "./yaml-tree.ts";

type Scalar = Extract<YamlNode, { kind: "scalar" }>;
type Parse = (text: string, previous: unknown) => unknown;

/** A flag's name without dashes: its key in a file. */
export function keyOf(option: Option): string {
  return option.name();
}

/** The value for a flag. Throws INVALID_ARGUMENT with file, line and remedy. */
export function valueOfNode(option: Option, node: YamlNode, file: string): unknown {
  const value = new ValueReader(option, file);
  return option instanceof SettingOption ? value.ofSetting(option.schema, node) : value.plain(node);
}

/** What is given to a flag that has no schema. */
export function kindOfPlain(option: Option): "switch" | "number" | "text" {
  if (!option.required && !option.optional) return "switch";
  if (typeof option.defaultValue === "number") return "number";
  try {
    return typeof parserOf(option)("1", undefined) === "number" ? "number" : "text";
  } catch {
    return "text"; // a parser of its own form of text
  }
}

function parserOf(option: Option): Parse {
  // The declaration of commander names one type for text and value.
  return (option.parseArg as Parse | undefined) ?? ((text) => text);
}

class ValueReader {
  readonly #option: Option;
  readonly #file: string;
  readonly #key: string;

  constructor(option: Option, file: string) {
    this.#option = option;
    this.#file = file;
    this.#key = keyOf(option);
  }

  ofSetting(schema: FieldSchema, node: YamlNode): unknown {
    const kinds = kindsOf(schema);
    const list = kinds.find(({ type }) => type === "array");
    if (node.kind === "list") {
      if (list === undefined) throw this.#notOne(kinds, node);
      return node.items.map((item) => this.#ofKinds(kindsOf(list.items ?? {}), item));
    }
    if (isNull(node)) return this.#ofKinds(kinds, node);
    if (list === undefined) return this.#ofKinds(kinds, node);
    return [this.#ofKinds(kindsOf(list.items ?? {}), node)];
  }

  #ofKinds(kinds: readonly FieldSchema[], node: YamlNode): unknown {
    if (node.kind === "list") throw this.#notOne(kinds, node);
    if (node.kind === "map") {
      if (kinds.length === 0 || kinds.some(({ type }) => type === "object")) {
        return plainValue(node);
      }
      throw this.#notOne(kinds, node);
    }
    if (isNull(node)) {
      if (kinds.some(({ type }) => type === "null")) return NO_VALUE;
      const remedy = "remove the line for the default";
      throw this.#refuse(node, `must be ${wantedBy(kinds, this.#key)}; ${remedy}`);
    }
    return this.#ofScalar(kinds, node);
  }

  #ofScalar(kinds: readonly FieldSchema[], node: Scalar): unknown {
    const { value } = node;
    if (kinds.length === 0) return value;
    const has = (type: string) => kinds.some((kind) => kind.type === type);
    if (typeof value === "boolean" && has("boolean")) return value;
    if (typeof value === "number" && kinds.some(isNumeric)) return value;
    if (typeof value !== "string") throw this.#refuse(node, this.#wrongType(kinds, node));
    const choices = kinds.flatMap(({ enum: words = [] }) => words.map(String));
    if (choices.includes(value)) return value;
    if (value === "none" && has("null")) return NO_VALUE;
    if (this.#option instanceof SwitchOption) return this.#word(node, this.#option.values);
    if (kinds.some(isNumeric)) return this.#number(value, kinds, node);
    if (choices.length > 0) return this.#word(node, choices);
    if (has("string")) return value;
    throw this.#refuse(node, this.#wrongType(kinds, node));
  }

  /** A list or a map where one value is wanted. */
  #notOne(kinds: readonly FieldSchema[], node: YamlNode): Error {
    const wanted = `must be ${wantedBy(kinds, this.#key)}`;
    return this.#refuse(node, `${wanted}, current value is a ${node.kind}; write one value`);
  }

  /** A word that must be one of several. */
  #word(node: Scalar, words: readonly string[]): unknown {
    const text = String(node.value);
    if (words.includes(text)) return parserOf(this.#option)(text, undefined);
    const near = nearestName(text, words);
    const remedy = near === null ? "" : `; did you mean ${near}?`;
    throw this.#refuse(node, `must be ${alternatives(words)}, ${current(node)}${remedy}`);
  }

  #number(text: string, kinds: readonly FieldSchema[], node: Scalar): number {
    if (!isSizeFlag(this.#key)) throw this.#refuse(node, this.#wrongType(kinds, node));
    const bytes = bytesOfText(text);
    if (bytes !== null) return bytes;
    const problem = sizeProblem(text).replace("Wanted", "must be").replace(/\.$/, "");
    throw this.#refuse(node, `${problem}, ${current(node)}`);
  }

  #wrongType(kinds: readonly FieldSchema[], node: Scalar): string {
    const wanted = `must be ${wantedBy(kinds, this.#key)}, ${current(node)}`;
    if (typeof node.value === "string") return `${wanted}${unitRemedy(this.#key, node.value)}`;
    const isText = kinds.some(({ type, enum: words }) => type === "string" && words === undefined);
    return isText ? `${wanted}; write it in quotes: ${JSON.stringify(node.text)}` : wanted;
  }

  /** For a flag without a schema: its own parser reads the text. */
  plain(node: YamlNode): unknown {
    const parse = parserOf(this.#option);
    if (kindOfPlain(this.#option) === "switch") {
      if (node.kind === "scalar" && typeof node.value === "boolean") return node.value;
      const found = node.kind === "scalar" ? `, ${current(node)}` : "";
      throw this.#refuse(node, `must be true or false${found}`);
    }
    if (node.kind === "list") {
      // A parser that gathers what is repeated, or one of a list with commas.
      if (parse.length >= 2) {
        return node.items.reduce<unknown>((all, item) => this.#parsed(item, all), undefined);
      }
      const texts = node.items.map((item) => this.#textOf(item));
      return this.#parsedText(texts.join(","), { node, previous: undefined });
    }
    return this.#parsed(node, undefined);
  }

  #parsed(node: YamlNode, previous: unknown): unknown {
    return this.#parsedText(this.#textOf(node), { node, previous });
  }

  #textOf(node: YamlNode): string {
    if (node.kind === "map" && /<json>/.test(this.#option.flags)) {
      return JSON.stringify(plainValue(node));
    }
    if (node.kind !== "scalar" || isNull(node)) {
      throw this.#refuse(node, `must be a ${kindOfPlain(this.#option)}`);
    }
    const isNumber = kindOfPlain(this.#option) === "number";
    if (isNumber || typeof node.value === "string") return String(node.value);
    // As the file has it: 1.10 is a text of four characters.
    return node.text;
  }

  #parsedText(
    text: string,
    { node, previous }: { readonly node: YamlNode; readonly previous: unknown },
  ): unknown {
    try {
      return parserOf(this.#option)(text, previous);
    } catch (thrown) {
      if (!(thrown instanceof InvalidArgumentError)) throw thrown;
      const problem = thrown.message.replace(/^Wanted /, "must be ").replace(/\.$/, "");
      const remedy = unitRemedy(this.#key, text);
      throw this.#refuse(node, `${problem}, current value is ${shortText(text)}${remedy}`);
    }
  }

  #refuse({ place }: YamlNode, problem: string) {
    return refusal(this.#file, place, `${this.#key} ${problem}`);
  }
}

function isNull(node: YamlNode): boolean {
  return node.kind === "scalar" && node.value === null;
}

function current({ text }: Scalar): string {
  return `current value is ${shortText(text)}`;
}

/** What the alternatives of a schema take. */
function wantedBy(kinds: readonly FieldSchema[], key: string): string {
  const words = kinds.flatMap((kind): string[] => {
    if (kind.enum !== undefined) return kind.enum.map(String);
    if (typeof kind.const === "string") return [kind.const];
    switch (kind.type) {
      case "integer":
      case "number":
        return [isSizeFlag(key) ? SIZE_WANTED : `a number${unitOf(key)}`];
      case "boolean":
        return ["true", "false"];
      case "array":
        return [`a list of ${isNumeric(kind.items) ? "numbers" : "texts"}`];
      case "object":
        return ["a map"];
      case "null":
        return ["null"];
      default:
        return ["a text"];
    }
  });
  return alternatives([...new Set(words)]);
}

function alternatives(words: readonly string[]): string {
  return words.length < 2 ? words.join("") : `${words.slice(0, -1).join(", ")} or ${words.at(-1)}`;
}

/** Times have their unit in their name. */
const MS_PER_UNIT: Readonly<Record<string, number>> = {
  ms: 1,
  s: 1000,
  sec: 1000,
  m: 60_000,
  min: 60_000,
  h: 3_600_000,
  d: 86_400_000,
};

function msOfKey(key: string): number | null {
  if (/(^|-)ms(-max|-min)?$/.test(key)) return 1;
  return /(^|-)seconds(-max|-min)?$/.test(key) ? 1000 : null;
}

function unitOf(key: string): string {
  const ms = msOfKey(key);
  if (ms === null) return "";
  return ms === 1 ? " of milliseconds" : " of seconds";
}

/** `30s` for a setting in milliseconds is 30000. */
function unitRemedy(key: string, text: string): string {
  const [, amount, unit = ""] = /^\s*(\d+(?:\.\d+)?)\s*([a-z]+)\s*$/i.exec(text) ?? [];
  if (amount === undefined) return "";
  const own = msOfKey(key);
  const given = MS_PER_UNIT[unit.toLowerCase()];
  if (own !== null && given !== undefined) return `; write ${(Number(amount) * given) / own}`;
  return `; write the number alone: ${amount}`;
}
