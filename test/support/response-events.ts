import type OpenAI from "openai";
import { expect } from "vitest";

/** One event of a streamed response. */
export interface ResponseEvent {
  readonly type: string;
  readonly sequence_number: number;
  readonly output_index?: number;
  readonly item_id?: string;
  readonly delta?: string;
  readonly text?: string;
  readonly item?: { readonly type: string; readonly [field: string]: unknown };
  readonly response?: OpenAI.Responses.Response;
  readonly [field: string]: unknown;
}

/** The events of an answer; their names and numbers are checked. */
export async function responseEvents(answer: Response): Promise<ResponseEvent[]> {
  return eventsIn(await answer.text());
}

/** The same of a text. Comments are left out. */
export function eventsIn(text: string): ResponseEvent[] {
  const blocks = text.split("\n\n").filter((block) => block !== "" && !block.startsWith(":"));
  return blocks.map((block, place) => {
    const [name = "", data = "", ...more] = block.split("\n");
    expect(more).toEqual([]);
    const event = JSON.parse(data.replace(/^data: /, "")) as ResponseEvent;
    expect(name).toBe(`event: ${event.type}`);
    expect(event.sequence_number).toBe(place);
    return event;
  });
}
