import { useEffect, useRef, useState } from "preact/hooks";
import { CacheState } from "./cache/cache-state.ts";
import { CacheView } from "./cache/cache-view.tsx";
import { ChatView } from "./chat/chat-view.tsx";
import { Feed, type FeedState, storeKey } from "./feed.ts";
import { FleetView } from "./fleet/fleet-view.tsx";
import type { CacheMessage, FleetMessage, Hello, NowMessage } from "./messages.ts";
import { NowState } from "./now/now-state.ts";
import { NowView } from "./now/now-view.tsx";

const PARTS = { now: "Now", cache: "Cache", chat: "Chat", fleet: "Fleet" } as const;
type Part = keyof typeof PARTS;

/** Keeps what a view collects while others are shown; `version` changes with each message. */
interface Live {
  readonly hello: Hello | null;
  readonly now: NowState;
  readonly cache: CacheState;
  readonly fleet: FleetMessage | null;
  readonly decisions: readonly string[];
  readonly version: number;
}

const DECISIONS_KEPT = 200;

export function App() {
  const [part, setPart] = useState<Part>(partOfAddress);
  const [feedState, setFeedState] = useState<FeedState>({ kind: "opening" });
  const { live, feed } = useLive(part, setFeedState);
  useEffect(() => {
    const follow = () => setPart(partOfAddress());
    addEventListener("hashchange", follow);
    return () => removeEventListener("hashchange", follow);
  }, []);
  const { hello } = live;
  const shown = hello?.kind === "router" && part !== "chat" ? "fleet" : part;
  useEffect(() => {
    document.title = `${PARTS[shown]} · Perigee`;
  }, [shown]);
  const unlock = (key: string) => {
    storeKey(key);
    feed.current?.restart();
  };
  return (
    <>
      <Top hello={hello} part={shown} state={feedState} />
      <main id="main" tabIndex={-1}>
        <h1 class="hidden">{PARTS[shown]}</h1>
        {feedState.kind === "locked" ? (
          <KeyForm refused={feedState.refused} onKey={unlock} />
        ) : (
          <>
            {feedState.kind === "refused" && <p class="notice">{feedState.reason}</p>}
            {shown === "now" && <NowView state={live.now} version={live.version} />}
            {shown === "cache" && (
              <CacheView
                state={live.cache}
                hello={hello}
                now={live.now}
                version={live.version}
                onKey={unlock}
              />
            )}
            {shown === "fleet" && (
              <FleetView fleet={live.fleet} decisions={live.decisions} hello={hello} />
            )}
            <div hidden={shown !== "chat"}>
              <ChatView hello={hello} />
            </div>
          </>
        )}
      </main>
    </>
  );
}

/** The stream, begun once, and what came of it. */
function useLive(part: Part, onState: (state: FeedState) => void) {
  const [live, setLive] = useState<Live>(() => ({
    ...{ hello: null, now: new NowState(), cache: new CacheState(), fleet: null },
    ...{ decisions: [], version: 0 },
  }));
  const feed = useRef<Feed | null>(null);
  const view = part === "cache" ? "cache" : "now";
  useEffect(() => {
    const own = new Feed(view, {
      onState,
      onEvent: (name, data) => setLive((before) => taken(before, name, data)),
    });
    feed.current = own;
    own.start();
    return () => own.end();
  }, []);
  const opened = useRef(view);
  useEffect(() => {
    if (opened.current !== view) feed.current?.restart(view);
    opened.current = view;
  }, [view]);
  return { live, feed };
}

/** Takes one event of the server, which is the author of its form. */
function taken(live: Live, name: string, data: unknown): Live {
  const version = live.version + 1;
  switch (name) {
    case "hello":
      return { ...live, hello: data as Hello, version };
    case "now":
      live.now.take(data as NowMessage);
      return { ...live, version };
    case "cache":
      live.cache.take(data as CacheMessage);
      return { ...live, version };
    case "fleet": {
      const fleet = data as FleetMessage;
      const decisions = [...fleet.decisions.toReversed(), ...live.decisions];
      return { ...live, fleet, decisions: decisions.slice(0, DECISIONS_KEPT), version };
    }
    default:
      return live;
  }
}

function partOfAddress(): Part {
  const name = location.hash.slice(1);
  return name in PARTS ? (name as Part) : "now";
}

function Top({ hello, part, state }: { hello: Hello | null; part: Part; state: FeedState }) {
  const isRouter = hello?.kind === "router";
  const parts = (Object.keys(PARTS) as Part[]).filter((name) =>
    isRouter ? name === "fleet" || name === "chat" : name !== "fleet",
  );
  return (
    <header class="top">
      <button type="button" class="skip" onClick={toMain}>
        To the content
      </button>
      <span class="mark">
        <i aria-hidden="true" class="orbit" />
        <b>Perigee</b>
      </span>
      <nav aria-label="Parts of the page">
        {parts.map((name) => (
          <a key={name} href={`#${name}`} aria-current={name === part ? "page" : undefined}>
            {PARTS[name]}
          </a>
        ))}
      </nav>
      <span class="facts quiet">{hello === null ? "" : factsOf(hello)}</span>
      <span class={`state state-${state.kind}`} role="status">
        {STATE_TEXT[state.kind]}
      </span>
    </header>
  );
}

/** Not by an address: the address names the part of the page. */
function toMain(): void {
  document.getElementById("main")?.focus();
}

const STATE_TEXT: Readonly<Record<FeedState["kind"], string>> = {
  opening: "connecting",
  open: "live",
  locked: "key needed",
  refused: "refused",
  lost: "connection lost",
};

function factsOf({ models, model, version }: Hello): string {
  const name = models[0] ?? "";
  return model === null ? `${name} · ${version}` : `${name} · ${model.device} · ${version}`;
}

function KeyForm({ refused, onKey }: { refused: boolean; onKey: (key: string) => void }) {
  const [key, setKey] = useState("");
  const submit = (event: Event) => {
    event.preventDefault();
    onKey(key.trim());
  };
  return (
    <form class="card key-form" onSubmit={submit}>
      <h2>This server wants an API key</h2>
      <p class="quiet">
        It stays in this tab, and goes to this server alone. An admin key also shows texts of
        prompts.
      </p>
      <label>
        API key
        <input
          type="password"
          autocomplete="off"
          value={key}
          onInput={(event) => setKey(event.currentTarget.value)}
        />
      </label>
      {refused && <p role="alert">The server refused this key.</p>}
      <button type="submit" class="main">
        Open
      </button>
    </form>
  );
}
