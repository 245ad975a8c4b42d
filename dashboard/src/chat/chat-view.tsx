import { useEffect, useRef, useState } from "preact/hooks";
import type { Hello } from "../messages.ts";
import { count } from "../numbers.ts";
import { type Attachment, EMPTY, fromJson, shownPath, toJson } from "./conversation.ts";
import { type ChatSettings, DEFAULTS } from "./settings.ts";
import { SettingsForm } from "./settings-form.tsx";
import { TurnView } from "./turn-view.tsx";
import { type Chat, useChat } from "./use-chat.ts";

const FILE_BYTES_MAX = 512 * 1024;
const FILES_MAX = 8;

/** A playground: what each message cost, and what the cache saved. */
export function ChatView({ hello }: { hello: Hello | null }) {
  const [settings, setSettings] = useState<ChatSettings>(DEFAULTS);
  const chat = useChat(settings);
  const [problem, setProblem] = useState<string | null>(null);
  const path = shownPath(chat.conversation);
  if (hello?.model?.hasChat === false) {
    return <p class="notice">This model has no chat template; use /v1/completions.</p>;
  }
  return (
    <div class="chat">
      <section class="talk card" aria-label="Conversation">
        <Tools
          chat={chat}
          settings={settings}
          onProblem={setProblem}
          onSystem={(system) => setSettings({ ...settings, system })}
        />
        {problem !== null && (
          <p class="notice" role="alert">
            {problem}
          </p>
        )}
        <ol class="turns" aria-live="polite">
          {path.map((turn) => (
            <TurnView key={turn.id} turn={turn} chat={chat} />
          ))}
        </ol>
        {path.length === 0 && (
          <p class="empty">
            Ask something. The second message of a conversation finds the first one in the cache:
            the Cache page shows where.
          </p>
        )}
        <Composer chat={chat} last={path.at(-1)?.id ?? null} onProblem={setProblem} />
      </section>
      <details class="card side" open={!isNarrow()}>
        <summary>Settings</summary>
        <SettingsForm settings={settings} hello={hello} onChange={setSettings} />
      </details>
    </div>
  );
}

function isNarrow(): boolean {
  return matchMedia("(max-width: 900px)").matches;
}

interface ToolsProps {
  readonly chat: Chat;
  readonly settings: ChatSettings;
  readonly onProblem: (problem: string | null) => void;
  readonly onSystem: (system: string) => void;
}

/** Export, import, and a new beginning. */
function Tools({ chat, settings, onProblem, onSystem }: ToolsProps) {
  const picker = useRef<HTMLInputElement>(null);
  const read = async (file: File | undefined) => {
    if (file === undefined) return;
    try {
      const { conversation, system } = fromJson(await file.text());
      chat.set(conversation);
      onSystem(system);
      onProblem(null);
    } catch (error) {
      onProblem(`Cannot import ${file.name}: ${error instanceof Error ? error.message : error}`);
    }
  };
  return (
    <div class="row">
      <button type="button" disabled={chat.answering !== null} onClick={() => chat.set(EMPTY)}>
        New
      </button>
      <button type="button" onClick={() => save(toJson(chat.conversation, settings.system))}>
        Export
      </button>
      <button
        type="button"
        disabled={chat.answering !== null}
        onClick={() => picker.current?.click()}
      >
        Import
      </button>
      <input
        ref={picker}
        type="file"
        accept="application/json,.json"
        hidden
        aria-label="Conversation to import"
        onChange={(event) => {
          void read(event.currentTarget.files?.[0]);
          event.currentTarget.value = "";
        }}
      />
    </div>
  );
}

function save(text: string): void {
  const address = URL.createObjectURL(new Blob([text], { type: "application/json" }));
  const link = document.createElement("a");
  link.href = address;
  link.download = "perigee-chat.json";
  link.click();
  URL.revokeObjectURL(address);
}

interface ComposerProps {
  readonly chat: Chat;
  readonly last: number | null;
  readonly onProblem: (problem: string | null) => void;
}

function Composer({ chat, last, onProblem }: ComposerProps) {
  const [typed, setTyped] = useState("");
  const [files, setFiles] = useState<readonly Attachment[]>([]);
  const field = useRef<HTMLTextAreaElement>(null);
  const isBusy = chat.answering !== null;
  useEffect(() => {
    if (!isBusy && last !== null) field.current?.focus();
  }, [isBusy]);
  const send = () => {
    if (isBusy || (typed.trim() === "" && files.length === 0)) return;
    onProblem(null);
    chat.say(last, typed, files);
    setTyped("");
    setFiles([]);
  };
  return (
    <form
      class="composer"
      onSubmit={(event) => {
        event.preventDefault();
        send();
      }}
    >
      {files.length > 0 && <Files files={files} onChange={setFiles} />}
      <textarea
        ref={field}
        aria-label="Message"
        rows={3}
        placeholder="Message (Enter sends, Shift+Enter: a new line)"
        value={typed}
        onInput={(event) => setTyped(event.currentTarget.value)}
        onKeyDown={(event) => {
          if (event.key !== "Enter" || event.shiftKey || event.isComposing) return;
          event.preventDefault();
          send();
        }}
      />
      <div class="row">
        <Attach files={files} onChange={setFiles} onProblem={onProblem} />
        {isBusy ? (
          <button type="button" class="main" onClick={() => chat.stop()}>
            Stop
          </button>
        ) : (
          <button type="submit" class="main">
            Send
          </button>
        )}
      </div>
    </form>
  );
}

interface FilesProps {
  readonly files: readonly Attachment[];
  readonly onChange: (files: readonly Attachment[]) => void;
}

function Files({ files, onChange }: FilesProps) {
  return (
    <ul class="row">
      {files.map((file) => (
        <li key={file.name} class="chip">
          {file.name} <span class="quiet">{count(file.text.length)}</span>{" "}
          <button
            type="button"
            class="small"
            aria-label={`Remove ${file.name}`}
            onClick={() => onChange(files.filter((other) => other !== file))}
          >
            ×
          </button>
        </li>
      ))}
    </ul>
  );
}

function Attach({ files, onChange, onProblem }: FilesProps & Pick<ComposerProps, "onProblem">) {
  const picker = useRef<HTMLInputElement>(null);
  const read = async (chosen: readonly File[]) => {
    const read: Attachment[] = [];
    for (const file of chosen.slice(0, FILES_MAX - files.length)) {
      if (file.size > FILE_BYTES_MAX) onProblem(`${file.name} is larger than 512 KiB`);
      else read.push({ name: file.name, text: await file.text() });
    }
    onChange([...files.filter(({ name }) => !read.some((other) => other.name === name)), ...read]);
  };
  return (
    <>
      <button type="button" onClick={() => picker.current?.click()}>
        Attach text
      </button>
      <input
        ref={picker}
        type="file"
        multiple
        hidden
        aria-label="Files to attach"
        accept="text/*,.md,.json,.csv,.ts,.js,.py,.c,.cpp,.h,.rs,.go,.java,.yaml,.yml,.toml,.log"
        onChange={(event) => {
          void read([...(event.currentTarget.files ?? [])]);
          event.currentTarget.value = "";
        }}
      />
    </>
  );
}
