/**
 * Structural tags (xgrammar's format): free text with constrained parts, as Lark.
 *
 * Free text ends where a trigger does: it is a lazy terminal, so no text contains a trigger that
 * does not begin a tag. A tag's end belongs to the terminal before it wherever that could match
 * beyond it: the lexer takes the longest match.
 */
import { grammarInvalid } from "./grammar-source.ts";
import { larkRegex, larkString } from "./lark-text.ts";

/** Writers of parts that are grammars of their own. */
export interface PartWriter {
  /** Lark's `%json`. */
  json(schema: unknown): string;
  /** Lark's `%lark`, of an EBNF grammar. */
  ebnf(text: string): string;
}

type Json = Readonly<Record<string, unknown>>;

interface Tag {
  readonly begin: string;
  readonly content: Json;
  readonly ends: readonly string[];
}

function isObject(value: unknown): value is Json {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}

function objectOf(value: unknown, name: string): Json {
  if (isObject(value)) return value;
  throw grammarInvalid(`${name} of a structural tag must be an object`);
}

function textOf(value: unknown, name: string): string {
  if (typeof value === "string") return value;
  throw grammarInvalid(`${name} of a structural tag must be a string`);
}

function listOf(value: unknown, name: string): readonly unknown[] {
  if (Array.isArray(value) && value.length > 0) return value;
  throw grammarInvalid(`${name} of a structural tag must be a list, and not empty`);
}

function tagOf(value: unknown): Tag {
  const tag = objectOf(value, "a tag");
  const ends = Array.isArray(tag.end) ? listOf(tag.end, "end") : [tag.end];
  return {
    begin: textOf(tag.begin, "begin"),
    content: objectOf(tag.content, "content"),
    ends: ends.map((end) => textOf(end, "end")),
  };
}

function shown(value: unknown): string {
  return JSON.stringify(value) ?? "missing";
}

/** A pattern for one of `texts`. */
function patternOf(texts: readonly string[]): string {
  const escaped = texts.map((text) => text.replace(/[\\^$.*+?()[\]{}|/&~#-]/g, "\\$&"));
  return `(?:${escaped.join("|")})`;
}

function anyOf(expressions: readonly string[]): string {
  return expressions.length === 1 ? (expressions[0] ?? "") : `(${expressions.join(" | ")})`;
}

const formats =
  "const_string, json_schema, any_text, regex, grammar, sequence, or, tag, triggered_tags, " +
  "tags_with_separator";

/** Converts vLLM's older form, `{ structures, triggers }`, to the newer. */
function newerForm(tag: Json): Json {
  if (!("structures" in tag)) return "format" in tag ? objectOf(tag.format, "format") : tag;
  const tags = listOf(tag.structures, "structures").map((value) => {
    const { begin, schema, end } = objectOf(value, "a structure");
    return { begin, end, content: { type: "json_schema", json_schema: schema ?? {} } };
  });
  return { type: "triggered_tags", triggers: tag.triggers, tags };
}

class TagWriter {
  readonly #parts: PartWriter;
  readonly #rules: string[] = [];

  constructor(parts: PartWriter) {
    this.#parts = parts;
  }

  write(tag: unknown): string {
    const start = this.#format(newerForm(objectOf(tag, "the value")), null);
    return [`start: ${start}`, ...this.#rules, ""].join("\n");
  }

  #rule(attributes: string, body: string): string {
    const name = `part_${this.#rules.length}`;
    this.#rules.push(`${name}${attributes}: ${body}`);
    return name;
  }

  /** `ends`: texts that follow, which are then part of the result; null where they are unknown. */
  #format(format: Json, ends: readonly string[] | null): string {
    switch (format.type) {
      case "any_text":
        return this.#text(ends);
      case "regex": {
        const pattern = textOf(format.pattern, "pattern");
        return this.#terminal(`(${larkRegex(pattern)})`, ends);
      }
      case "sequence":
        return this.#sequence(listOf(format.elements, "elements"), ends);
      case "or": {
        const elements = listOf(format.elements, "elements");
        return anyOf(elements.map((item) => this.#format(objectOf(item, "an element"), ends)));
      }
      case "tag": {
        const { begin } = tagOf(format);
        return this.#ended(`${larkString(begin)} ${this.#afterBegin(tagOf(format))}`, ends);
      }
      default:
        return this.#ended(this.#unended(format), ends);
    }
  }

  #unended(format: Json): string {
    switch (format.type) {
      case "const_string":
        return larkString(textOf(format.value, "value"));
      case "json_schema":
        return this.#parts.json(format.json_schema);
      case "grammar":
        return this.#parts.ebnf(textOf(format.grammar, "grammar"));
      case "triggered_tags":
        return this.#triggered(format);
      case "tags_with_separator":
        return this.#separated(format);
      default:
        throw grammarInvalid(
          `type of a structural tag must be one of ${formats}, it is ${shown(format.type)}`,
        );
    }
  }

  #ended(expression: string, ends: readonly string[] | null): string {
    return ends === null ? expression : `${expression} ${anyOf(ends.map(larkString))}`;
  }

  #terminal(pattern: string, ends: readonly string[] | null): string {
    const name = `PART_${this.#rules.length}`;
    this.#rules.push(`${name}: ${this.#ended(pattern, ends)}`);
    return name;
  }

  #text(ends: readonly string[] | null): string {
    if (ends === null || ends.includes("")) return this.#terminal("/(?s:.*)/", null);
    return this.#rule("[lazy]", `/(?s:.*)${patternOf(ends)}/`);
  }

  #sequence(elements: readonly unknown[], ends: readonly string[] | null): string {
    const parts: string[] = [];
    for (let place = 0; place < elements.length; place++) {
      const element = objectOf(elements[place], "an element");
      const next = elements[place + 1];
      const isLast = place === elements.length - 1;
      // An unbounded element also matches the text behind it.
      const runsOn = element.type === "any_text" || element.type === "regex";
      if (runsOn && isObject(next) && next.type === "const_string") {
        parts.push(this.#format(element, [textOf(next.value, "value")]));
        place++;
        if (place === elements.length - 1 && ends !== null) {
          parts.push(anyOf(ends.map(larkString)));
        }
      } else if (element.type === "any_text" && !isLast) {
        throw grammarInvalid(
          "any_text in a sequence must be followed by a const_string or nothing",
        );
      } else {
        parts.push(this.#format(element, isLast ? ends : null));
      }
    }
    return `(${parts.join(" ")})`;
  }

  /** Content and end of a tag whose beginning is already written. */
  #afterBegin({ content, ends }: Tag): string {
    return this.#format(content, ends);
  }

  #triggered(format: Json): string {
    const triggers = listOf(format.triggers, "triggers").map((text) => textOf(text, "a trigger"));
    const tags = listOf(format.tags, "tags").map(tagOf);
    const stray = tags.find(({ begin }) => !triggers.some((text) => begin.startsWith(text)));
    if (stray !== undefined || triggers.includes("")) {
      throw grammarInvalid("every tag must begin with one of the triggers, and these with text");
    }
    const branches = triggers.flatMap((trigger) => {
      const mine = tags.filter(({ begin }) => begin.startsWith(trigger));
      if (mine.length === 0) return [];
      const rests = mine.map((tag) => {
        const rest = tag.begin.slice(trigger.length);
        return `${larkString(rest)} ${this.#afterBegin(tag)}`;
      });
      return [`${this.#rule("[lazy]", `/(?s:.*)${patternOf([trigger])}/`)} ${anyOf(rests)}`];
    });
    const tagged = this.#rule("", anyOf(branches));
    if (format.stop_after_first === true) {
      return format.at_least_one === true ? tagged : `(${tagged} | ${this.#text(null)})`;
    }
    return `${tagged}${format.at_least_one === true ? "+" : "*"} ${this.#text(null)}`;
  }

  #separated(format: Json): string {
    const tags = listOf(format.tags, "tags").map(tagOf);
    const alternatives = tags.map((tag) => `${larkString(tag.begin)} ${this.#afterBegin(tag)}`);
    const tagged = this.#rule("", anyOf(alternatives));
    const separator = larkString(textOf(format.separator ?? "", "separator"));
    const all = format.stop_after_first === true ? tagged : `${tagged} (${separator} ${tagged})*`;
    return format.at_least_one === true ? `(${all})` : `(${all})?`;
  }
}

/** Lark of a structural tag, in either form. Throws GRAMMAR_INVALID. */
export function structuralTagLark(tag: unknown, parts: PartWriter): string {
  return new TagWriter(parts).write(tag);
}
