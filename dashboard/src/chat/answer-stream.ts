/** One streamed answer: its text, tool calls, citations and counts as they come. */
import { accessHeaders, readEvents, reasonOf } from "../feed.ts";
import { type AnswerPart, AnswerReader } from "./answer-reader.ts";

/** Sends a request and tells what has come, again and again. Throws what failed. */
export async function streamAnswer(
  body: object,
  signal: AbortSignal,
  onPart: (part: AnswerPart) => void,
): Promise<void> {
  const startMs = performance.now();
  const answer = await fetch("v1/chat/completions", {
    method: "POST",
    headers: { ...accessHeaders(), "content-type": "application/json" },
    body: JSON.stringify(body),
    signal,
  });
  if (!answer.ok || answer.body === null) throw new Error(await reasonOf(answer));
  const reader = new AnswerReader(startMs);
  await readEvents(answer.body, (_name, data) => {
    reader.take(data, performance.now());
    onPart(reader.part);
  });
}
