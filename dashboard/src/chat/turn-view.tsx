import { useState } from "preact/hooks";
import { count, duration, percent } from "../numbers.ts";
import { branchesOf, choose, type ToolCall, type Turn, type TurnStats } from "./conversation.ts";
import { answersBehind, type Chat } from "./use-chat.ts";

interface TurnProps {
  readonly turn: Turn;
  readonly chat: Chat;
}

const ROLES = { user: "You", assistant: "Model", tool: "Tool" } as const;

/** One turn: what was said, as text, and what the server told of it. */
export function TurnView({ turn, chat }: TurnProps) {
  const [edited, setEdited] = useState<string | null>(null);
  const isAnswering = chat.answering === turn.id;
  return (
    <li class={`turn turn-${turn.role}`}>
      <div class="turn-head">
        <b>{ROLES[turn.role]}</b>
        <Branches turn={turn} chat={chat} />
        {chat.answering === null && turn.role === "user" && (
          <button type="button" class="small" onClick={() => setEdited(turn.content)}>
            Edit
          </button>
        )}
        {chat.answering === null && turn.role === "assistant" && (
          <button type="button" class="small" onClick={() => chat.again(turn)}>
            Again
          </button>
        )}
      </div>
      {edited === null ? (
        <Said turn={turn} isAnswering={isAnswering} />
      ) : (
        <Editor
          text={edited}
          onCancel={() => setEdited(null)}
          onSend={(text) => {
            setEdited(null);
            chat.say(turn.parent, text, turn.files);
          }}
        />
      )}
      {turn.toolCalls.map((call) => (
        <CallView key={call.id} call={call} turn={turn} chat={chat} />
      ))}
      {turn.citations.length > 0 && <Sources turn={turn} />}
      {turn.error !== null && (
        <p class="notice" role="alert">
          {turn.error}
        </p>
      )}
      {turn.stats !== null && <Stats stats={turn.stats} reason={turn.finishReason} />}
    </li>
  );
}

function Said({ turn, isAnswering }: { turn: Turn; isAnswering: boolean }) {
  return (
    <>
      {turn.files.map(({ name, text }) => (
        <details key={name} class="file">
          <summary>
            {name} <span class="quiet">{count(text.length)} characters</span>
          </summary>
          <pre tabIndex={0}>{text}</pre>
        </details>
      ))}
      <div class="said" aria-busy={isAnswering}>
        {turn.content}
        {isAnswering && <span class="caret" aria-hidden="true" />}
      </div>
    </>
  );
}

function Branches({ turn, chat }: TurnProps) {
  const branches = branchesOf(chat.conversation, turn);
  if (branches.length < 2) return null;
  const at = branches.findIndex(({ id }) => id === turn.id);
  const go = (step: number) => {
    const other = branches[at + step];
    if (other !== undefined) chat.set(choose(chat.conversation, other.id));
  };
  return (
    <span class="branches">
      <button
        type="button"
        class="small"
        disabled={at === 0}
        aria-label="Branch before"
        onClick={() => go(-1)}
      >
        ‹
      </button>
      {at + 1} of {branches.length}
      <button
        type="button"
        class="small"
        disabled={at === branches.length - 1}
        aria-label="Next branch"
        onClick={() => go(1)}
      >
        ›
      </button>
    </span>
  );
}

interface EditorProps {
  readonly text: string;
  readonly onSend: (text: string) => void;
  readonly onCancel: () => void;
}

function Editor({ text, onSend, onCancel }: EditorProps) {
  const [typed, setTyped] = useState(text);
  return (
    <div class="editor">
      <textarea
        aria-label="Message"
        rows={4}
        value={typed}
        onInput={(event) => setTyped(event.currentTarget.value)}
      />
      <button type="button" class="main" onClick={() => onSend(typed)}>
        Send as a new branch
      </button>
      <button type="button" onClick={onCancel}>
        Cancel
      </button>
    </div>
  );
}

function CallView({ call, turn, chat }: TurnProps & { call: ToolCall }) {
  const [typed, setTyped] = useState("");
  const isOpen = !answersBehind(chat.conversation, turn).some(
    (answer) => answer.toolCallId === call.id,
  );
  return (
    <div class="call">
      <p>
        calls <code>{call.name}</code>
      </p>
      <pre tabIndex={0}>{call.arguments}</pre>
      {isOpen && chat.answering === null && (
        <div class="editor">
          <textarea
            aria-label={`Result of ${call.name}`}
            rows={2}
            placeholder="What the tool returns"
            value={typed}
            onInput={(event) => setTyped(event.currentTarget.value)}
          />
          <button type="button" onClick={() => chat.answerTool(turn, call.id, typed)}>
            Return
          </button>
        </div>
      )}
    </div>
  );
}

function Sources({ turn }: { turn: Turn }) {
  const names = [...new Set(turn.citations.map(({ filename, fileId }) => filename || fileId))];
  return (
    <p class="quiet">
      From{" "}
      {names.map((name) => (
        <span key={name} class="chip">
          {name}
        </span>
      ))}
    </p>
  );
}

/** The prompt as a bar: what the cache had, and what was computed. */
function Stats({ stats, reason }: { stats: TurnStats; reason: string | null }) {
  const { promptTokens, cachedTokens, completionTokens, firstTokenMs, wholeMs } = stats;
  const decodeMs = wholeMs - (firstTokenMs ?? 0);
  const speed =
    completionTokens > 1 && decodeMs > 0 ? ((completionTokens - 1) / decodeMs) * 1000 : 0;
  const drafted = (stats.accepted ?? 0) + (stats.rejected ?? 0);
  return (
    <div class="stats">
      <span class="bar" aria-hidden="true">
        <span
          class="bar-cached"
          style={{ width: `${promptTokens > 0 ? (100 * cachedTokens) / promptTokens : 0}%` }}
        />
      </span>
      <span>
        <b>{percent(cachedTokens, promptTokens)}</b> of {count(promptTokens)} prompt tokens cached
      </span>
      <span>first token {duration(firstTokenMs === null ? null : firstTokenMs / 1000)}</span>
      <span>
        {count(completionTokens)} tokens{speed > 0 ? ` at ${count(speed)}/s` : ""}
      </span>
      {drafted > 0 && (
        <span>
          drafted {count(drafted)}: <b>{count(stats.accepted ?? 0)}</b> accepted,{" "}
          {count(stats.rejected ?? 0)} rejected
        </span>
      )}
      {reason !== null && reason !== "stop" && <span>ended by {reason}</span>}
    </div>
  );
}
