import { useEffect, useState } from "preact/hooks";
import { accessHeaders, reasonOf } from "../feed.ts";
import type { Hello, Run } from "../messages.ts";
import { count } from "../numbers.ts";
import { keyOf } from "./icicle.tsx";

interface Text {
  readonly text: string | null;
  readonly tokens: number;
  readonly skipped: number;
}

interface TextProps {
  readonly run: Run;
  readonly hello: Hello | null;
  readonly onKey: (key: string) => void;
}

/** The end of a prefix as text, for those whose key may read it. */
export function PrefixText({ run, hello, onKey }: TextProps) {
  if (hello === null) return null;
  if (hello.admin) return <ReadText key={keyOf(run)} run={run} />;
  if (!hello.hasAdmin) {
    return (
      <p class="quiet">
        Texts of prompts are shown to holders of an admin key; this server has none (
        <code>--admin-key-file</code>).
      </p>
    );
  }
  return <AdminKey onKey={onKey} />;
}

function ReadText({ run }: { run: Run }) {
  const [read, setRead] = useState<Text | string | null>(null);
  useEffect(() => {
    const stop = new AbortController();
    const ask = async () => {
      const address = `dashboard/text?node=${run.node}&serial=${run.serial}`;
      const answer = await fetch(address, { headers: accessHeaders(), signal: stop.signal });
      setRead(answer.ok ? ((await answer.json()) as Text) : await reasonOf(answer));
    };
    ask().catch(() => {});
    return () => stop.abort();
  }, [keyOf(run)]);
  if (read === null) return <p class="quiet">Reading …</p>;
  if (typeof read === "string") return <p class="notice">{read}</p>;
  if (read.text === null)
    return <p class="quiet">This text is gone, or the model has no tokenizer.</p>;
  return (
    <figure class="prefix-text">
      <figcaption class="quiet">
        The prefix up to the end of this run
        {read.skipped > 0 ? `, without its first ${count(read.skipped)} tokens` : ""}
      </figcaption>
      <pre tabIndex={0}>{read.text}</pre>
    </figure>
  );
}

function AdminKey({ onKey }: Pick<TextProps, "onKey">) {
  const [key, setKey] = useState("");
  return (
    <form
      class="inline"
      onSubmit={(event) => {
        event.preventDefault();
        onKey(key.trim());
      }}
    >
      <label>
        Admin key, to read the text{" "}
        <input
          type="password"
          autocomplete="off"
          value={key}
          onInput={(event) => setKey(event.currentTarget.value)}
        />
      </label>
      <button type="submit">Use</button>
    </form>
  );
}
