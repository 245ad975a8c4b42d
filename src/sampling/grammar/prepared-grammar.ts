/** A request's grammar in a language that llguidance reads. */
import { ebnfLark } from "./ebnf-lark.ts";
import { type GrammarSource, grammarInvalid } from "./grammar-source.ts";
import { preparedSchema } from "./json-schema.ts";
import { larkRegex, larkString } from "./lark-text.ts";
import { structuralTagLark } from "./structural-tag.ts";

export interface PreparedGrammar {
  readonly language: "json" | "lark";
  readonly text: string;
}

/** A JSON value that was validated when the request arrived. */
function parsed(text: string): unknown {
  return JSON.parse(text);
}

function choiceLark(text: string): string {
  const choices: unknown = parsed(text);
  if (!Array.isArray(choices)) throw grammarInvalid("choice must be a list");
  // One terminal: with several, the lexer would match the longest of them.
  const literals = choices.map((choice) => larkString(String(choice)));
  return `start: CHOICE\nCHOICE: ${literals.join(" | ")}\n`;
}

/** Translates `source`. Throws GRAMMAR_INVALID. */
export function preparedGrammar(
  { kind, text }: GrammarSource,
  whitespaceMax: number,
): PreparedGrammar {
  const json = (schema: unknown): string => JSON.stringify(preparedSchema(schema, whitespaceMax));
  switch (kind) {
    case "schema":
      return { language: "json", text: json(parsed(text)) };
    case "regex":
      return { language: "lark", text: `start: ${larkRegex(text)}\n` };
    case "choice":
      return { language: "lark", text: choiceLark(text) };
    case "ebnf":
      return { language: "lark", text: ebnfLark(text) };
    case "tag": {
      const parts = {
        json: (schema: unknown) => `%json ${json(schema)}`,
        ebnf: (grammar: string) => `%lark {\n${ebnfLark(grammar)}}`,
      };
      return { language: "lark", text: structuralTagLark(parsed(text), parts) };
    }
  }
}
