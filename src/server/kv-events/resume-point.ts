import { HttpError } from "../http-errors.ts";

/** The event after which a stream resumes. */
export interface ResumePoint {
  readonly afterId: number;
  /** The stream that the event belongs to; null if the client does not specify it. */
  readonly streamId: string | null;
}

/** An event's id in streams: the number alone would denote another event after a restart. */
export function eventName(id: number, streamId: string): string {
  return `${id}-${streamId}`;
}

/**
 * Parses `after` or Last-Event-ID: an event's number, or its `eventName`. Null without one. Throws
 * HttpError 400 for any other text.
 */
export function parseResumePoint(text: string | undefined): ResumePoint | null {
  if (text === undefined || text === "") return null;
  const match = /^(-1|\d{1,15})(?:-(\w{1,64}))?$/.exec(text);
  if (match === null) {
    throw new HttpError(
      400,
      "invalid_argument",
      `Cannot stream KV events: after must be an event's id, current value is ${text.slice(0, 80)}`,
    );
  }
  return { afterId: Number(match[1]), streamId: match[2] ?? null };
}
