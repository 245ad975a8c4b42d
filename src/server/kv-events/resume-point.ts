import { HttpError } from "../http-errors.ts";

/** Where a stream goes on: behind this event. */
export interface ResumePoint {
  readonly afterId: number;
  /** The stream that the number belongs to; null where the client does not say. */
  readonly streamId: string | null;
}

/** An event's name in our streams: its number alone would mean another event after a restart. */
export function eventName(id: number, streamId: string): string {
  return `${id}-${streamId}`;
}

/**
 * Reads `after` or Last-Event-ID: an event's number, or its name. Null without one. Throws
 * HttpError 400 for what is neither.
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
