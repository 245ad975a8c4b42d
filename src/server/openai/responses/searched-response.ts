/** A response that is found in vector stores. */
import type { Call } from "../../context.ts";
import type { FileSearch, FileSearchRequest } from "../file-search.ts";
import type { ResponseWriter } from "./response-writer.ts";

/** What is asked, of whom, and how the answer is counted. */
export interface Searching {
  readonly search: FileSearch;
  readonly question: FileSearchRequest;
  readonly call: Call;
  /** The response shows what was found. */
  readonly withResults: boolean;
}

/** Writes what comes, and yields after each piece; returns whether it is cut. */
export async function* searchInto(
  writer: ResponseWriter,
  { search, question, call, withResults }: Searching,
): AsyncGenerator<void, boolean, undefined> {
  const { output } = writer;
  let isCut = false;
  let begun = false;
  for await (const event of search.answer(question)) {
    // The first event is there: a search that failed is still a plain HTTP answer.
    if (!begun) {
      begun = true;
      writer.begin();
      output.search(question.question);
    }
    switch (event.type) {
      case "found":
        output.found(withResults ? event.files : null);
        break;
      case "text":
        output.say(event.text);
        break;
      case "citation":
        output.cite(event.citation);
        break;
      case "end":
        call.usage.answered(event);
        isCut = event.finishReason === "length";
        break;
    }
    yield;
  }
  return isCut;
}
