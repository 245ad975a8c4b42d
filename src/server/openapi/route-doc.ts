import type { z } from "zod";

/** What a route takes and answers, for the OpenAPI document. */
export interface RouteDoc {
  readonly method: "get" | "post" | "put" | "patch" | "delete";
  /** As the application has it: `/v1/responses/:response`. */
  readonly path: string;
  /** Under which heading it stands. */
  readonly tag: string;
  /** One sentence without a full stop. */
  readonly summary: string;
  /** The schema that the route checks its body by, and the name that the document gives it. */
  readonly body?: { readonly name: string; readonly schema: z.ZodType };
  /** Its body is a form with a file. */
  readonly takesForm?: boolean;
  /** The schema that the route checks its query by. */
  readonly query?: z.ZodType;
  readonly answer: AnswerKind;
  /** In which API's form it says what is wrong. Default: OpenAI's. */
  readonly errors?: ErrorForm;
}

/** The API whose form errors have. */
export type ErrorForm = "openai" | "anthropic" | "ollama";

/**
 * What comes back; `streams`: JSON, or events where the body has `stream: true`; `lines`: a JSON
 * object a line, or one alone where the body has `stream: false`.
 */
export type AnswerKind =
  | ("json" | "streams" | "lines" | "events")
  | ("text" | "html" | "bytes" | "empty");
