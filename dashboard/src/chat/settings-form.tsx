import type { Hello } from "../messages.ts";
import type { ChatSettings } from "./settings.ts";

interface FormProps {
  readonly settings: ChatSettings;
  readonly hello: Hello | null;
  readonly onChange: (settings: ChatSettings) => void;
}

type Name = Exclude<keyof ChatSettings, "drafts">;

const SAMPLING: readonly (readonly [Name, string])[] = [
  ["temperature", "temperature"],
  ["topP", "top_p"],
  ["topK", "top_k"],
  ["minP", "min_p"],
  ["maxTokens", "max tokens"],
  ["seed", "seed"],
];

const RETENTION: readonly (readonly [Name, string])[] = [
  ["promptPriority", "prompt: priority, 0 to 100"],
  ["promptSeconds", "for seconds"],
  ["answerPriority", "answer: priority, 0 to 100"],
  ["answerSeconds", "for seconds"],
];

/** All settings of a request; empty fields are the server's defaults. */
export function SettingsForm({ settings, hello, onChange }: FormProps) {
  const field = (name: Name, label: string) => (
    <label key={name}>
      {label}
      <input
        type="text"
        inputMode="decimal"
        value={settings[name]}
        onInput={(event) => onChange({ ...settings, [name]: event.currentTarget.value })}
      />
    </label>
  );
  const area = (name: Name, label: string, rows: number) => (
    <label key={name} class="tall">
      {label}
      <textarea
        rows={rows}
        spellcheck={false}
        value={settings[name]}
        onInput={(event) => onChange({ ...settings, [name]: event.currentTarget.value })}
      />
    </label>
  );
  return (
    <form class="settings" onSubmit={(event) => event.preventDefault()}>
      {(hello?.models.length ?? 0) > 1 && (
        <ModelChoice settings={settings} hello={hello} onChange={onChange} />
      )}
      {area("system", "System prompt", 3)}
      <fieldset>
        <legend>Sampling</legend>
        {SAMPLING.map(([name, label]) => field(name, label))}
        <Drafts settings={settings} hello={hello} onChange={onChange} />
      </fieldset>
      <fieldset>
        <legend>How long its blocks stay cached</legend>
        {RETENTION.map(([name, label]) => field(name, label))}
        {field("cacheSalt", "cache salt")}
      </fieldset>
      {area("stop", "Stop texts, one per line", 2)}
      {area("tools", "Tools, as JSON", 4)}
      {area("schema", "JSON Schema of the answer", 4)}
      {hello?.hasVectorStores === true && area("stores", "Answer from vector stores (ids)", 2)}
    </form>
  );
}

function ModelChoice({ settings, hello, onChange }: FormProps) {
  return (
    <label class="tall">
      Model
      <select
        value={settings.model}
        onChange={(event) => onChange({ ...settings, model: event.currentTarget.value })}
      >
        {(hello?.models ?? []).map((name) => (
          <option key={name} value={name}>
            {name}
          </option>
        ))}
      </select>
    </label>
  );
}

function Drafts({ settings, hello, onChange }: FormProps) {
  return (
    <label>
      drafts{hello?.model?.drafts ? ` (${hello.model.drafts})` : ""}
      <select
        value={settings.drafts}
        onChange={(event) => {
          const { value } = event.currentTarget;
          onChange({ ...settings, drafts: value === "on" || value === "off" ? value : "default" });
        }}
      >
        <option value="default">as the server</option>
        <option value="on">on</option>
        <option value="off">off</option>
      </select>
    </label>
  );
}
