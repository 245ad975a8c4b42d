import {
  type LanguageModelV4Message,
  type LanguageModelV4Prompt,
  type LanguageModelV4ToolResultOutput,
  UnsupportedFunctionalityError,
} from "@ai-sdk/provider";
import type { ChatTurn } from "./chat-source.ts";

/** The prompt of a call as messages in OpenAI's form. Throws UnsupportedFunctionalityError. */
export function messagesOf(prompt: LanguageModelV4Prompt): ChatTurn[] {
  return prompt.flatMap(turnsOf);
}

function turnsOf(message: LanguageModelV4Message): ChatTurn[] {
  switch (message.role) {
    case "system":
      return [{ role: "system", content: message.content }];
    case "user":
      return [{ role: "user", content: message.content.map(textOf).join("") }];
    case "assistant":
      return [assistantTurn(message.content)];
    case "tool":
      return message.content.flatMap((part) => {
        if (part.type !== "tool-result") return [];
        const { toolCallId, toolName, output } = part;
        const content = resultText(output);
        return [{ role: "tool", tool_call_id: toolCallId, name: toolName, content }];
      });
  }
}

type Content<Role> = Extract<LanguageModelV4Message, { role: Role }>["content"];

function assistantTurn(content: Content<"assistant">): ChatTurn {
  let text = "";
  let reasoning = "";
  const calls: unknown[] = [];
  for (const part of content) {
    if (part.type === "text") text += part.text;
    else if (part.type === "reasoning") reasoning += part.text;
    else if (part.type === "tool-call") {
      const given = typeof part.input === "string" ? part.input : JSON.stringify(part.input ?? {});
      const called = { name: part.toolName, arguments: given };
      calls.push({ id: part.toolCallId, type: "function", function: called });
    } else if (part.type === "file" || part.type === "reasoning-file") {
      throw unsupported(`files of type ${part.mediaType}`);
    }
  }
  return {
    role: "assistant",
    content: text,
    ...(reasoning === "" ? {} : { reasoning_content: reasoning }),
    ...(calls.length === 0 ? {} : { tool_calls: calls }),
  };
}

/** A text, or a file of text. */
function textOf(part: Content<"user">[number]): string {
  if (part.type === "text") return part.text;
  const { data, mediaType } = part;
  if (data.type === "text") return data.text;
  const isText = mediaType === "text" || mediaType.startsWith("text/");
  if (data.type !== "data" || !isText) throw unsupported(`files of type ${mediaType}`);
  const bytes = data.data;
  return typeof bytes === "string"
    ? Buffer.from(bytes, "base64").toString("utf8")
    : new TextDecoder().decode(bytes);
}

function resultText(output: LanguageModelV4ToolResultOutput): string {
  switch (output.type) {
    case "text":
    case "error-text":
      return output.value;
    case "json":
    case "error-json":
      return JSON.stringify(output.value);
    case "execution-denied":
      return JSON.stringify({ error: output.reason ?? "The call was not allowed" });
    case "content":
      return output.value
        .map((part) => {
          if (part.type === "text") return part.text;
          throw unsupported(`${part.type} parts in results of tools`);
        })
        .join("\n");
  }
}

function unsupported(functionality: string): UnsupportedFunctionalityError {
  const message = `Perigee's models read texts only: leave out ${functionality}`;
  return new UnsupportedFunctionalityError({ functionality, message });
}
