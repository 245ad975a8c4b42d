/** One hostile value as it is said at each door: over HTTP, in TypeScript, in a row of a file. */
import { Dice } from "../fuzz/dice.ts";
import { FIELD_VALUES } from "./field-values.ts";
import type { BodyCase } from "./hostile-case.ts";
import { type JsonFields, type JsonText, objectText } from "./json-text.ts";
import { textOf } from "./value-families.ts";

/** The same wish in three ways of writing. */
export interface DoorCase {
  readonly field: string;
  readonly value: JsonText;
  readonly http: BodyCase;
  /** JSON of the prompt and of the options. */
  readonly prompt: JsonText;
  readonly options: JsonText;
  /** A line of `--input`; null where rows have no such field. */
  readonly row: JsonText | null;
}

/** How a field of HTTP's is called at the other doors, where it means the same. */
interface Translation {
  readonly field: string;
  /** Around the value, which stands for `$`. */
  readonly around?: string;
  readonly inRows: boolean;
}

const same = (field: string): Translation => ({ field, inRows: true });
const structured = (kind: string): Translation => ({
  ...{ field: "structuredOutput", around: `{"${kind}":$}`, inRows: true },
});

/** By the field's name over HTTP. */
export const TRANSLATIONS: Readonly<Record<string, Translation>> = {
  ...Object.fromEntries(
    [
      ...["n", "temperature", "seed", "stop", "topP", "topK", "minP", "repetitionPenalty"],
      ...["presencePenalty", "frequencyPenalty", "stopTokenIds", "includeStopStrInOutput"],
      ...["ignoreEos", "minTokens", "maxTokens", "logitBias", "allowedTokenIds", "badWords"],
      ...["skipSpecialTokens", "shownTokenIds", "spacesBetweenSpecialTokens", "speculative"],
    ].map((name) => [snakeCase(name), same(name)]),
  ),
  cache_salt: { field: "cacheSalt", inRows: false },
  priority: { field: "priority", inRows: false },
  guided_json: structured("json"),
  guided_regex: structured("regex"),
  guided_choice: structured("choice"),
  guided_grammar: structured("grammar"),
};

/** Some values of a field, as each door is given them. */
export function doorCases(field: string, count: number, seed: number): DoorCase[] {
  const { beside = {} } = FIELD_VALUES[field] ?? {};
  return chosenValues(field, count, seed)
    .filter((value) => value !== "null") // over HTTP this means: not given
    .map((value) => doorCase(field, value, beside));
}

/** Some hostile values, chosen by a seed; all of them where there are no more. */
export function chosenValues(field: string, count: number, seed: number): JsonText[] {
  const dice = new Dice(seed);
  const left = [...(FIELD_VALUES[field]?.hostile ?? [])];
  const chosen = Array.from({ length: Math.min(count, left.length) }, () =>
    left.splice(dice.below(left.length), 1),
  );
  return chosen.flat().map(textOf);
}

function doorCase(field: string, value: JsonText, beside: JsonFields): DoorCase {
  const translation = TRANSLATIONS[field];
  if (translation === undefined) throw new Error(`${field} has no translation`);
  const { field: name, around = "$", inRows } = translation;
  const base = { max_tokens: "4", temperature: "0", ...beside };
  const prompt = '"A cache is"';
  const other = around.split("$").join(value);
  const named = Object.fromEntries(
    Object.entries(base).map(([key, text]) => [TRANSLATIONS[key]?.field ?? key, text]),
  );
  return {
    ...{ field, value, prompt },
    http: {
      ...{ kind: "body", name: `door ${field}`, path: "/v1/completions", fields: [field] },
      body: objectText({ prompt, ...base, [field]: value }),
      ways: ["whole"],
    },
    options: objectText({ ...named, [name]: other }),
    row: inRows ? objectText({ prompt, ...base, [snakeCase(name)]: other }) : null,
  };
}

/** `topP` as `top_p`. */
export function snakeCase(name: string): string {
  return name.replace(/[A-Z]/g, (letter) => `_${letter.toLowerCase()}`);
}
