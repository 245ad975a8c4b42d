import type { Hello } from "../messages.ts";
import type { NowState } from "../now/now-state.ts";
import { Tile } from "../now/now-view.tsx";
import { RequestList } from "../now/request-list.tsx";
import { count, percent } from "../numbers.ts";
import { BlockMap } from "./block-map.tsx";
import type { CacheState } from "./cache-state.ts";
import { LevelTable, Moves } from "./counters.tsx";
import { PrefixTree } from "./prefix-tree.tsx";

interface CacheProps {
  readonly state: CacheState;
  readonly hello: Hello | null;
  readonly now: NowState;
  readonly version: number;
  readonly onKey: (key: string) => void;
}

/** What the cache has, where, and what it saves. */
export function CacheView({ state, hello, now, version, onKey }: CacheProps) {
  const { maps, report, first } = state;
  if (hello !== null && !hello.canLook) {
    return <p class="notice">This model has no cache of keys and values.</p>;
  }
  const totals = now.last?.totals;
  return (
    <>
      <ul class="tiles" aria-label="Cache">
        <Tile
          name="prompt tokens cached"
          value={percent(totals?.cachedPromptTokens ?? 0, totals?.promptTokens ?? 0)}
          more={`${count(totals?.cachedPromptTokens ?? 0)} of ${count(totals?.promptTokens ?? 0)}`}
        />
        <Tile
          name="saved a second"
          value={`${count(now.rates.cached)}`}
          more="prompt tokens not computed"
        />
        {(report?.levels ?? []).map(({ level, held, total }) => (
          <Tile
            key={level}
            name={`held, ${level}`}
            value={percent(held, total)}
            more={`${count(held)} of ${count(total)} blocks`}
          />
        ))}
        <Tile name="preemptions" value={count(totals?.preemptions ?? 0)} more="since the start" />
      </ul>
      <div class="cards">
        <PrefixTree hello={hello} onKey={onKey} />
        {maps.map((map) => (
          <BlockMap
            key={map.level}
            map={map}
            counts={report?.levels.find(({ level }) => level === map.level) ?? null}
            bytesPerBlock={hello?.model?.bytesPerBlock ?? 0}
            version={version}
          />
        ))}
        {report !== null && first !== null && (
          <div class="stack">
            <LevelTable report={report} first={first} />
            <Moves report={report} />
          </div>
        )}
        <RequestList ended={now.ended} />
      </div>
    </>
  );
}
