/**
 * chat: a model's text as a chat message: its thinking, its answer, its calls of tools.
 *
 * Each family of models writes calls in a notation of its own. A parser reads one sequence's text
 * as it arrives, cut at any place, and returns the parts that are certain. What is no well-formed
 * call stays text. A format also knows the structural tag that makes an output consist of calls.
 *
 *   output-part.ts            parts of an output, and what a parser of them is
 *   answer-reading.ts         how outputs are read, by settings, template and the prompt's end
 *   call-use.ts               how calls of a conversation's tools are read, and forced
 *   answer-reader.ts          one sequence; how many of its tokens were thoughts
 *   reasoning-parser.ts       thinking between marks, then an answer
 *   template-format.ts        which format a chat template shows its model
 *   call-formats.ts           the formats of calls: parser, forced calls, marks
 *   forced-calls.ts           structural tags that force calls
 *   stepwise-parser.ts        text in steps, undecided text held back
 *   marked-parser.ts          calls behind a mark, anywhere in a text
 *   beginning-parser.ts       the parser by what a text begins with
 *   llama3-parser.ts          Llama 3: the whole text is calls
 *   pythonic-parser.ts        the whole text is a Python list of calls
 *   call-reader.ts            what reads calls behind a mark:
 *   json-calls.ts             JSON, one object or a list
 *   json-argument-calls.ts    a name, then a JSON object
 *   markup-calls.ts           <function=…> with parameters
 *   mistral-calls.ts          the two of Mistral
 *   python-calls.ts           f(a=1)
 *   call-writer.ts            numbers calls; call-emitter.ts: JSON objects as calls
 *   json-call-reader.ts       one JSON object of a call, as it arrives
 *   literal-scanner.ts        brackets and quotes; python-literal.ts: Python's values as JSON
 *   argument-schema.ts        what a schema says of one argument; argument-check.ts: whether
 *                             arguments fit it
 *
 * Invariant: how a text is cut does not matter.
 * Invariant: the work is linear in the text, and what is held back is bounded by one argument.
 *
 * @module
 */

export { AnswerReader } from "./answer-reader.ts";
export { answerReading } from "./answer-reading.ts";
export { argumentProblem } from "./argument-check.ts";
export { PlainParser } from "./beginning-parser.ts";
export { CALL_FORMATS, type CallFormatName, callFormat } from "./call-formats.ts";
export { type CallChoice, callSetting, callUse } from "./call-use.ts";
export type { CallableTool, TagFormat } from "./forced-calls.ts";
export type { CallContext, JsonSchema, OutputParser, OutputPart } from "./output-part.ts";
export {
  callFormatOf,
  REASONING_FORMATS,
  type ReasoningFormat,
  type ReasoningFormatName,
  reasoningFormat,
} from "./template-format.ts";
