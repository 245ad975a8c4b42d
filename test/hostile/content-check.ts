/** What must hold of every right answer, whatever was asked for. */
import { type Fields, fieldsOf, listOf } from "./answer-check.ts";

const VOCABULARY = 4096;
const REASONS = new Set(["stop", "length", "tool_calls"]);

interface Content {
  readonly texts: readonly string[] | null;
  readonly problems: readonly string[];
}

/** `request`: as the server read it; `value`: the whole answer, or a stream's chunks put together. */
export function contentProblems(path: string, request: Fields | null, value: Fields): Content {
  const asked = request ?? {};
  const strangers = unknownIds(asked);
  if (strangers.length > 0) {
    return { texts: null, problems: [`tokens ${strangers} are not in the vocabulary`] };
  }
  switch (path) {
    case "/v1/completions":
    case "/v1/chat/completions":
      return generationProblems(path, asked, value);
    case "/v1/embeddings":
      return { texts: null, problems: embeddingProblems(asked, value) };
    case "/v1/rerank":
    case "/v2/rerank":
      return { texts: null, problems: rankProblems(asked, value) };
    case "/v1/score":
      return { texts: null, problems: scoreProblems(asked, value) };
    case "/tokenize":
      return { texts: null, problems: tokenizeProblems(value) };
    case "/v1/completions/render":
    case "/v1/chat/completions/render":
      return { texts: null, problems: renderProblems(value) };
    default:
      return {
        texts: null,
        problems: typeof value.prompt === "string" ? [] : ["no text of the tokens"],
      };
  }
}

/** A list of prompts, or one. */
function renderProblems(value: Fields): string[] {
  const rendered = value.list === undefined ? [value] : listOf(value.list).map(fieldsOf);
  if (rendered.length === 0) return ["no prompt"];
  return rendered.flatMap((one) => {
    const ids = listOf(one?.token_ids);
    const isRight = ids.length > 0 && ids.every((id) => Number(id) >= 0 && Number(id) < VOCABULARY);
    return isRight ? [] : ["a prompt without tokens, or with unknown ones"];
  });
}

/** Ids that the bundled model does not know. */
function unknownIds(asked: Fields): number[] {
  const { prompt, input, tokens, stop_token_ids: stops, allowed_token_ids: allowed } = asked;
  const lists = [prompt, input, tokens, stops, allowed].map(listOf);
  const biased = Object.keys(fieldsOf(asked.logit_bias) ?? {}).map(Number);
  const ids = [...lists.flatMap((list) => list.flat()), ...biased];
  return ids.filter((id): id is number => typeof id === "number" && id >= VOCABULARY).slice(0, 5);
}

/** Choices of the private field that have ended. */
function endedCount(field: unknown): number {
  const begun = listOf(fieldsOf(field)?.continue).map(fieldsOf);
  return begun.filter((one) => one?.ended === true).length;
}

function generationProblems(path: string, asked: Fields, value: Fields): Content {
  const problems: string[] = [];
  const choices = listOf(value.choices).map((choice) => fieldsOf(choice) ?? {});
  const prompts = path === "/v1/completions" ? promptCount(asked.prompt) : 1;
  const wanted = prompts * (countOf(asked.n) ?? 1);
  // What has ended elsewhere says no more here.
  const ended = endedCount(asked.perigee);
  if (choices.length > wanted || choices.length < wanted - ended) {
    problems.push(`${choices.length} choices instead of ${wanted}`);
  }
  for (const [at, choice] of choices.entries()) {
    if (choice.index !== at) problems.push(`choice ${at} has the index ${choice.index}`);
    if (!REASONS.has(String(choice.finish_reason))) {
      problems.push(`a choice ended by ${choice.finish_reason}`);
    }
    if (choice.ends !== undefined && choice.ends !== 1) problems.push(`${choice.ends} ends`);
    problems.push(...choiceProblems(asked, choice));
  }
  problems.push(...usageProblems(asked, fieldsOf(value.usage), choices.length));
  return { texts: choices.map(textOf), problems };
}

function choiceProblems(asked: Fields, choice: Fields): string[] {
  const problems: string[] = [];
  const text = textOf(choice);
  const ids = listOf(choice.token_ids);
  const plain = asked.echo !== true && asked.tools === undefined && asked.tools !== null;
  if (plain && text !== "") problems.push(...stopProblems(asked, text));
  const allowed = listOf(asked.allowed_token_ids);
  if (allowed.length > 0 && ids.some((id) => !allowed.includes(id) && !isEnd(id))) {
    problems.push(`tokens ${ids} are not among those allowed`);
  }
  const endedItself = choice.finish_reason === "stop" && (choice.stop_reason ?? null) === null;
  if (plain && endedItself) problems.push(...structureProblems(asked, text));
  return problems;
}

function isEnd(id: unknown): boolean {
  return id === 0 || id === 3;
}

/** Stop strings are not shown, bad words not written. */
function stopProblems(asked: Fields, text: string): string[] {
  const stops = typeof asked.stop === "string" ? [asked.stop] : listOf(asked.stop);
  const hides = asked.include_stop_str_in_output !== true && !(Number(asked.min_tokens) > 0);
  const shown = stops.filter((stop) => hides && text.includes(String(stop)));
  return shown.map((stop) => `the stop string ${JSON.stringify(stop)} is in the text`);
}

/** What a grammar is asked for holds where the sequence ended by itself. */
function structureProblems(asked: Fields, text: string): string[] {
  const outputs = fieldsOf(asked.structured_outputs) ?? {};
  const choices = listOf(asked.guided_choice ?? outputs.choice);
  const isText = choices.every((choice) => String(choice).isWellFormed());
  if (isText && choices.length > 0 && !choices.includes(text)) {
    return [`${JSON.stringify(text)} is none of the choices`];
  }
  const format = fieldsOf(asked.response_format)?.type;
  const isJson =
    (format === "json_object" || format === "json_schema") && asked.tool_choice === undefined;
  if (!isJson || asked.stop_token_ids != null || asked.stop != null) return [];
  try {
    JSON.parse(text);
    return [];
  } catch {
    return [`${JSON.stringify(text)} is no JSON`];
  }
}

function usageProblems(asked: Fields, usage: Fields | null, choices: number): string[] {
  if (usage === null) return [];
  const most = countOf(asked.max_completion_tokens) ?? countOf(asked.max_tokens);
  const prompt = countOf(usage.prompt_tokens);
  const made = countOf(usage.completion_tokens);
  if (prompt === null || made === null || prompt < 1) return [`usage ${JSON.stringify(usage)}`];
  const isRight = usage.total_tokens === prompt + made && (most === null || made <= most * choices);
  return isRight ? [] : [`usage ${JSON.stringify(usage)} of ${choices} choices of ${most}`];
}

function embeddingProblems(asked: Fields, value: Fields): string[] {
  const data = listOf(value.data).map((item) => fieldsOf(item) ?? {});
  const wanted = promptCount(asked.input);
  if (data.length !== wanted) return [`${data.length} vectors instead of ${wanted}`];
  return data.flatMap(({ embedding }) => {
    const vector = typeof embedding === "string" ? floatsOf(embedding) : listOf(embedding);
    const length = Math.hypot(...vector.map(Number));
    return Math.abs(length - 1) < 1e-3 ? [] : [`a vector has the length ${length}`];
  });
}

/** The best first, each document once, and no more than were asked for. */
function rankProblems(asked: Fields, value: Fields): string[] {
  const results = listOf(value.results).map((item) => fieldsOf(item) ?? {});
  const all = listOf(asked.documents).length;
  const wanted = Math.min(all, countOf(asked.top_n) || all);
  const places = new Set(results.map(({ index }) => Number(index)));
  const scores = results.map(({ relevance_score: score }) => Number(score));
  const isRight =
    results.length === wanted &&
    places.size === wanted &&
    [...places].every((place) => place >= 0 && place < all) &&
    scores.every((score, at) => Number.isFinite(score) && score <= (scores[at - 1] ?? score));
  return isRight ? [] : [`ranks ${JSON.stringify(results).slice(0, 200)} of ${all}`];
}

function scoreProblems(asked: Fields, value: Fields): string[] {
  const scores = listOf(value.data).map((item) => Number(fieldsOf(item)?.score));
  const wanted = Array.isArray(asked.text_2) ? asked.text_2.length : 1;
  return scores.length === wanted && scores.every(Number.isFinite)
    ? []
    : [`${scores.length} scores instead of ${wanted}`];
}

function floatsOf(base64: string): readonly number[] {
  const bytes = Buffer.from(base64, "base64");
  return Array.from({ length: bytes.length / 4 }, (_, at) => bytes.readFloatLE(at * 4));
}

function tokenizeProblems({ count, tokens }: Fields): string[] {
  return listOf(tokens).length === count ? [] : [`${count} tokens, but ${listOf(tokens).length}`];
}

/** A text, a list of texts, token ids, or a list of lists of them. */
function promptCount(prompt: unknown): number {
  if (!Array.isArray(prompt) || typeof prompt[0] === "number") return 1;
  return prompt.length;
}

function countOf(value: unknown): number | null {
  return typeof value === "number" && Number.isInteger(value) ? value : null;
}

function textOf({ text, message }: Fields): string {
  return String(text ?? fieldsOf(message)?.content ?? "");
}
