"""ChatML text, the same as the chat template in tokenizer_config.json renders it."""

import json
from dataclasses import dataclass, field
from typing import Any

END_OF_TEXT = "<|endoftext|>"
PAD = "<|pad|>"
START = "<|im_start|>"
END = "<|im_end|>"
SPECIAL_TOKENS = [END_OF_TEXT, PAD, START, END]
ADDED_TOKENS = ["<tool_call>", "</tool_call>"]

TOOLS_HEAD = (
    "# Tools\n\nYou may call one or more functions to assist with the user query.\n\n"
    "You are provided with function signatures within <tools></tools> XML tags:\n<tools>"
)
TOOLS_TAIL = (
    "\n</tools>\n\nFor each function call, return a json object with function name and arguments"
    " within <tool_call></tool_call> XML tags:\n<tool_call>\n"
    '{"name": <function-name>, "arguments": <args-json-object>}\n</tool_call>'
)

CHAT_TEMPLATE = """\
{%- set first = messages[0] if messages else none %}
{%- if tools %}
{{- '<|im_start|>system\\n' }}
{%- if first and first.role == 'system' %}{{- first.content + '\\n\\n' }}{%- endif %}
{{- HEAD }}
{%- for tool in tools %}{{- '\\n' + (tool | tojson) }}{%- endfor %}
{{- TAIL + '<|im_end|>\\n' }}
{%- elif first and first.role == 'system' %}
{{- '<|im_start|>system\\n' + first.content + '<|im_end|>\\n' }}
{%- endif %}
{%- for message in messages %}
{%- if message.role == 'system' and loop.first %}
{%- elif message.role == 'assistant' %}
{{- '<|im_start|>assistant' }}
{%- if message.content %}{{- '\\n' + message.content }}{%- endif %}
{%- for call in message.tool_calls or [] %}
{%- set function = call.function if call.function else call %}
{{- '\\n<tool_call>\\n{"name": "' + function.name + '", "arguments": ' }}
{%- if function.arguments is string %}{{- function.arguments }}{%- else %}{{- function.arguments | tojson }}{%- endif %}
{{- '}\\n</tool_call>' }}
{%- endfor %}
{%- if not message.content and not message.tool_calls %}{{- '\\n' }}{%- endif %}
{{- '<|im_end|>\\n' }}
{%- elif message.role == 'tool' %}
{%- if loop.first or messages[loop.index0 - 1].role != 'tool' %}{{- '<|im_start|>user' }}{%- endif %}
{{- '\\n<tool_response>\\n' + message.content + '\\n</tool_response>' }}
{%- if loop.last or messages[loop.index0 + 1].role != 'tool' %}{{- '<|im_end|>\\n' }}{%- endif %}
{%- else %}
{{- '<|im_start|>' + message.role + '\\n' + message.content + '<|im_end|>\\n' }}
{%- endif %}
{%- endfor %}
{%- if add_generation_prompt %}{{- '<|im_start|>assistant\\n' }}{%- endif %}
"""


def chat_template() -> str:
    """The Jinja template with the tool texts as string literals."""

    def literal(text: str) -> str:
        return "'" + text.replace("\\", "\\\\").replace("'", "\\'").replace("\n", "\\n") + "'"

    return CHAT_TEMPLATE.replace("HEAD", literal(TOOLS_HEAD)).replace("TAIL", literal(TOOLS_TAIL))


@dataclass
class Chat:
    """A conversation: OpenAI-style messages, and tools if any."""

    messages: list[dict[str, Any]]
    tools: list[dict[str, Any]] = field(default_factory=list)
    task: str = "chat"


def say(role: str, content: str) -> dict[str, Any]:
    """One plain message."""
    return {"role": role, "content": content}


def call(name: str, arguments: dict[str, Any]) -> dict[str, Any]:
    """An assistant message that calls one function."""
    return {
        "role": "assistant",
        "content": "",
        "tool_calls": [{"type": "function", "function": {"name": name, "arguments": arguments}}],
    }


def dumps(value: Any) -> str:
    """JSON as Jinja's `tojson` filter of the tokenizer libraries writes it."""
    return json.dumps(value, ensure_ascii=False)


def render_assistant(message: dict[str, Any]) -> str:
    """What the model writes after the generation prompt, its end token included."""
    parts = [message["content"]] if message["content"] else []
    for tool_call in message.get("tool_calls", []):
        function = tool_call["function"]
        body = f'{{"name": "{function["name"]}", "arguments": {dumps(function["arguments"])}}}'
        parts.append(f"<tool_call>\n{body}\n</tool_call>")
    return "\n".join(parts) + END


def segments(chat: Chat, generation_prompt: bool = False) -> list[tuple[str, bool]]:
    """The conversation as (text, is the model's own) pieces whose concatenation is the rendering."""
    messages = list(chat.messages)
    pieces: list[tuple[str, bool]] = []
    system = messages.pop(0)["content"] if messages and messages[0]["role"] == "system" else None
    if chat.tools:
        listing = "".join("\n" + dumps(tool) for tool in chat.tools)
        lead = system + "\n\n" if system is not None else ""
        pieces.append((f"{START}system\n{lead}{TOOLS_HEAD}{listing}{TOOLS_TAIL}{END}\n", False))
    elif system is not None:
        pieces.append((f"{START}system\n{system}{END}\n", False))
    for index, message in enumerate(messages):
        if message["role"] == "assistant":
            pieces += [
                (f"{START}assistant\n", False),
                (render_assistant(message), True),
                ("\n", False),
            ]
        elif message["role"] == "tool":
            first = index == 0 or messages[index - 1]["role"] != "tool"
            last = index + 1 == len(messages) or messages[index + 1]["role"] != "tool"
            text = f"\n<tool_response>\n{message['content']}\n</tool_response>"
            pieces.append(
                ((f"{START}user" if first else "") + text + (f"{END}\n" if last else ""), False)
            )
        else:
            pieces.append((f"{START}{message['role']}\n{message['content']}{END}\n", False))
    if generation_prompt:
        pieces.append((f"{START}assistant\n", False))
    return pieces


def render(chat: Chat, generation_prompt: bool = False) -> str:
    """The conversation as one string."""
    return "".join(text for text, _ in segments(chat, generation_prompt))
