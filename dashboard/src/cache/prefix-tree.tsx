import { useEffect, useState } from "preact/hooks";
import { accessHeaders, reasonOf } from "../feed.ts";
import type { Hello, Picture, Run } from "../messages.ts";
import { count, percent } from "../numbers.ts";
import { Icicle, keyOf, runText } from "./icicle.tsx";
import { PrefixText } from "./prefix-text.tsx";

const EVERY_MS = 1000;

interface TreeProps {
  readonly hello: Hello | null;
  readonly onKey: (key: string) => void;
}

/** The prefix tree, that of all contents or the part behind one run. */
export function PrefixTree({ hello, onKey }: TreeProps) {
  const [path, setPath] = useState<readonly Run[]>([]);
  const [chosen, setChosen] = useState<Run | null>(null);
  const root = path.at(-1) ?? null;
  const { picture, problem } = usePicture(root, () => setPath((before) => before.slice(0, -1)));
  const shown =
    picture?.runs.find((run) => chosen !== null && keyOf(run) === keyOf(chosen)) ?? chosen;
  const open = (run: Run) => {
    setChosen(run);
    setPath((before) => [...before.filter((other) => keyOf(other) !== keyOf(run)), run]);
  };
  return (
    <section class="card wide" aria-label="Prefix tree">
      <h2>
        Prefix tree{" "}
        <span class="quiet">
          {picture === null ? "" : `${count(picture.contents)} blocks of contents`}
          {picture?.complete === false ? ", the first ones of more" : ""}
        </span>
      </h2>
      <p class="quiet">
        Conversations that begin alike share what hangs above the branch. Bars are as wide as what
        is below them; numbers are tokens.
      </p>
      <Path
        path={path}
        depth={picture?.depth ?? 0}
        onGo={(length) => setPath(path.slice(0, length))}
      />
      {problem !== null && <p class="notice">{problem}</p>}
      {picture !== null && picture.runs.length === 0 && (
        <p class="empty">Nothing is stored yet. Send a prompt, and its blocks appear here.</p>
      )}
      {picture !== null && picture.runs.length > 0 && (
        <Icicle picture={picture} chosen={shown} onChoose={setChosen} onOpen={open} />
      )}
      {shown !== null && (
        <RunFacts
          run={shown}
          whole={picture?.contents ?? 0}
          hello={hello}
          onKey={onKey}
          onOpen={open}
        />
      )}
    </section>
  );
}

/** Asked again and again while it is shown; `onGone`: the run to begin at was evicted. */
function usePicture(root: Run | null, onGone: () => void) {
  const [picture, setPicture] = useState<Picture | null>(null);
  const [problem, setProblem] = useState<string | null>(null);
  const name = root === null ? "" : keyOf(root);
  useEffect(() => {
    const stop = new AbortController();
    let timer = 0;
    const ask = async () => {
      const where = root === null ? "" : `&node=${root.node}&serial=${root.serial}`;
      try {
        const answer = await fetch(`dashboard/prefixes?runs=240${where}`, {
          ...{ headers: accessHeaders(), signal: stop.signal },
        });
        if (!answer.ok) setProblem(await reasonOf(answer));
        else {
          const { picture: found } = (await answer.json()) as { picture: Picture | null };
          setProblem(null);
          if (found === null) onGone();
          else setPicture(found);
        }
      } catch {
        // The stream says that the connection is lost.
      }
      if (!stop.signal.aborted) timer = window.setTimeout(() => void ask(), EVERY_MS);
    };
    void ask();
    return () => {
      clearTimeout(timer);
      stop.abort();
    };
  }, [name]);
  return { picture, problem };
}

interface PathProps {
  readonly path: readonly Run[];
  readonly depth: number;
  readonly onGo: (length: number) => void;
}

function Path({ path, depth, onGo }: PathProps) {
  if (path.length === 0) return null;
  return (
    <nav class="path" aria-label="Path in the tree">
      <button type="button" onClick={() => onGo(0)}>
        All
      </button>
      {path.map((run, at) => (
        <button type="button" key={keyOf(run)} onClick={() => onGo(at + 1)}>
          {count(run.tokens)} tokens
        </button>
      ))}
      <span class="quiet">{depth > 0 ? `behind ${count(depth)} blocks` : ""}</span>
    </nav>
  );
}

type FactsProps = TreeProps & {
  readonly run: Run;
  readonly whole: number;
  readonly onOpen: (run: Run) => void;
};

function RunFacts({ run, whole, hello, onKey, onOpen }: FactsProps) {
  return (
    <div class="facts-box" aria-live="polite">
      <p>
        <b>{runText(run)}</b>
        <span class="quiet">
          {" "}
          · {percent(run.below, whole)} of what is shown · {levelsText(run)} · priority{" "}
          {prioritiesText(run)}
          {run.salted ? " · of requests with a salt" : ""}
          {run.group > 0 ? ` · layers of group ${run.group}` : ""}
        </span>
      </p>
      <button type="button" onClick={() => onOpen(run)}>
        Open from here
      </button>
      <PrefixText run={run} hello={hello} onKey={onKey} />
    </div>
  );
}

const LEVEL_WORDS = ["on the device", "in host memory", "on disk"];

function levelsText({ segments }: Run): string {
  const contents = [0, 0, 0];
  for (const [count, level] of segments) contents[level] = (contents[level] ?? 0) + count;
  return contents
    .map((amount, level) => (amount > 0 ? `${count(amount)} ${LEVEL_WORDS[level]}` : ""))
    .filter((text) => text !== "")
    .join(", ");
}

function prioritiesText({ segments }: Run): string {
  const priorities = segments.map(([, , , priority]) => priority);
  const [least, most] = [Math.min(...priorities), Math.max(...priorities)];
  return least === most ? String(least) : `${least} to ${most}`;
}
