/** Whether an answer is a refusal as it should be, or right. */

import type { Answer } from "./case-sender.ts";
import { bodyOf } from "./case-sender.ts";
import { contentProblems } from "./content-check.ts";
import type { BodyCase, WireCase } from "./hostile-case.ts";

/** Longest text of an error: clients' content is not sent back to them. */
const MESSAGE_LENGTH_MAX = 700;
const PARAM_LENGTH_MAX = 300;
/** Requests of fewer sequences are no overload. */
const OVERLOAD_SEQUENCES = 256;

/** What a case was answered with, without what may differ between ways of asking. */
export interface Verdict {
  /** `ok`, or the error's code. */
  readonly code: string;
  /** The choices' texts in order, where there are any. */
  readonly texts: readonly string[] | null;
  readonly problems: readonly string[];
}

/** Checks what came back for a body; `way` is how it was asked for. */
export function checkAnswer(one: BodyCase, way: "whole" | "stream", answer: Answer): Verdict {
  const request = parsed(bodyOf(one, way));
  if (answer.failure !== null) {
    return { code: "none", texts: null, problems: [answer.failure] };
  }
  const type = String(answer.headers["content-type"] ?? "");
  if (answer.headers["x-evil"] !== undefined) return bad("none", "a header of the client's came");
  if (answer.status !== 200) return checkRefusal(answer, request);
  if (type.startsWith("text/event-stream")) return checkStream(one.path, request, answer.text);
  const value = parsed(answer.text) ?? listIn(answer.text);
  if (value === null) return bad("none", `200 without JSON: ${answer.text.slice(0, 200)}`);
  const { texts, problems } = contentProblems(one.path, request, value);
  return { code: "ok", texts, problems };
}

/** A list as the only field of an object; null: it is none. */
function listIn(text: string): Fields | null {
  return text.startsWith("[") ? parsed(`{"list":${text}}`) : null;
}

function checkRefusal({ status, text }: Answer, request: Fields | null): Verdict {
  const error = fieldsOf(fieldsOf(parsed(text))?.error);
  if (error === null) return bad(`${status}`, `${status} without an error: ${text.slice(0, 200)}`);
  return errorVerdict(status, error, request);
}

function errorVerdict(status: number, error: Fields, request: Fields | null): Verdict {
  const { message, param, code } = error;
  const problems: string[] = [];
  // A deadline of half a millisecond is refused by a router that knows how long its workers take.
  const isLate = code === "deadline_unmeetable" && fieldsOf(request?.deadlines) !== null;
  const isOverload = status === 429 && (isLate || sequencesOf(request) >= OVERLOAD_SEQUENCES);
  if (status < 400 || status >= 500 || (status === 429 && !isOverload)) {
    problems.push(`${status} ${String(message).slice(0, 300)}`);
  }
  if (typeof message !== "string" || typeof code !== "string") {
    problems.push(`an error without message or code: ${JSON.stringify(error).slice(0, 200)}`);
  } else if (message.length > MESSAGE_LENGTH_MAX) {
    problems.push(`an error of ${message.length} characters: ${message.slice(0, 100)}…`);
  } else if (hasControl(message)) {
    problems.push(`an error with control characters: ${JSON.stringify(message)}`);
  }
  if (typeof param === "string" && param.length > PARAM_LENGTH_MAX) {
    problems.push(`an error's param has ${param.length} characters`);
  }
  return { code: String(code), texts: null, problems };
}

/** Events until [DONE]: chunks of one answer, or, at any place, an error. */
function checkStream(path: string, request: Fields | null, text: string): Verdict {
  const blocks = text.split("\n\n").filter((block) => block !== "" && !block.startsWith(":"));
  const last = blocks.pop();
  if (last !== "data: [DONE]") return bad("none", "a stream does not end with [DONE]");
  const chunks: Fields[] = [];
  for (const block of blocks) {
    const value = block.startsWith("data: ") ? fieldsOf(parsed(block.slice(6))) : null;
    if (value === null) return bad("none", `an event is no JSON: ${block.slice(0, 200)}`);
    const error = fieldsOf(value.error);
    if (error !== null) return errorVerdict(statusOf(error), error, request);
    chunks.push(value);
  }
  const { texts, problems } = contentProblems(path, request, joined(chunks));
  return { code: "ok", texts, problems };
}

/** An event has no status: what the client did wrong has a type of its own. */
function statusOf({ type, code }: Fields): number {
  if (type === "rate_limit_error") return 429;
  return type === "invalid_request_error" && code !== "aborted" ? 400 : 500;
}

/** One answer of a stream's chunks, as it would have come at once. */
function joined(chunks: readonly Fields[]): Fields {
  const choices = new Map<unknown, Record<string, unknown>>();
  let usage: unknown = null;
  for (const chunk of chunks) {
    usage = chunk.usage ?? usage;
    for (const delta of listOf(chunk.choices)) {
      const {
        index,
        text,
        finish_reason: reason,
        stop_reason: stopReason,
        token_ids: ids,
        delta: part,
      } = fieldsOf(delta) ?? {};
      const choice = choices.get(index) ?? { index, ends: 0, text: "", token_ids: [], calls: 0 };
      const { content, tool_calls: calls } = fieldsOf(part) ?? {};
      choice.text = `${choice.text}${text ?? content ?? ""}`;
      choice.token_ids = [...listOf(choice.token_ids), ...listOf(ids)];
      choice.calls = Number(choice.calls) + listOf(calls).length;
      if (reason !== null && reason !== undefined) {
        choice.finish_reason = reason;
        choice.stop_reason = stopReason;
        choice.ends = Number(choice.ends) + 1;
      }
      choices.set(index, choice);
    }
  }
  const sorted = [...choices.values()].sort((a, b) => Number(a.index) - Number(b.index));
  return { choices: sorted, usage };
}

/** Checks what came over a connection that was sent bytes. */
export function checkWire(_one: WireCase, { text, failure }: Answer): readonly string[] {
  if (failure !== null) return [failure];
  const problems: string[] = [];
  for (const [, status = ""] of text.matchAll(/HTTP\/1\.[01] (\d{3}) /g)) {
    if (Number(status) >= 500) problems.push(`${status} in ${text.slice(0, 500)}`);
  }
  if (/^x-evil:/im.test(text)) problems.push("a header of the client's came back");
  return problems;
}

export type Fields = Readonly<Record<string, unknown>>;

/** An object's fields; null for what is none. */
export function fieldsOf(value: unknown): Fields | null {
  return typeof value === "object" && value !== null && !Array.isArray(value)
    ? (value as Fields) // any object is
    : null;
}

export function listOf(value: unknown): readonly unknown[] {
  return Array.isArray(value) ? value : [];
}

function parsed(text: string): Fields | null {
  try {
    return fieldsOf(JSON.parse(text));
  } catch {
    return null;
  }
}

/** Sequences that a request asks for. */
function sequencesOf(request: Fields | null): number {
  const { n, prompt, input, beam_width: beams } = request ?? {};
  const lists = [prompt, input].map((value) => Math.max(1, listOf(value).length));
  return Math.max(...lists) * Math.max(1, Number(n) || 1, Number(beams) || 1);
}

function hasControl(text: string): boolean {
  return [...text].some((character) => character < " " || character === "\u007f");
}

function bad(code: string, problem: string): Verdict {
  return { code, texts: null, problems: [problem] };
}

/** Refused as a stream, refused at once, by the same code; the same text where nothing is drawn. */
export function wayDifference(one: BodyCase, first: Verdict, second: Verdict): string | null {
  if (first.code !== second.code) return `${first.code} at once, ${second.code} as a stream`;
  if (first.texts === null || second.texts === null || !isGreedy(one)) return null;
  const [whole, streamed] = [first.texts, second.texts].map((texts) => JSON.stringify(texts));
  return whole === streamed ? null : `${whole} at once, ${streamed} as a stream`;
}

function isGreedy({ body }: BodyCase): boolean {
  const { temperature, tools } = JSON.parse(body);
  return (temperature === 0 || Object.is(temperature, -0)) && tools === undefined;
}
