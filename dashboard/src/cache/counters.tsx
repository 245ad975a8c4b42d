import type { CacheMessage, LevelCounts } from "../messages.ts";
import { bytes, count, duration } from "../numbers.ts";
import { LEVEL_TITLES } from "./block-map.tsx";

type Report = NonNullable<CacheMessage["report"]>;

/** What happened to blocks, by level and reason: since the server's start, and since now. */
export function LevelTable({ report, first }: { report: Report; first: Report }) {
  return (
    <section class="card" aria-label="What happened to blocks">
      <h2>What happened to blocks</h2>
      <section class="scroll" tabIndex={0} aria-label="Table of counters">
        <table>
          <thead>
            <tr>
              <th scope="col">since the start (since this page)</th>
              {report.levels.map(({ level }) => (
                <th scope="col" key={level}>
                  {LEVEL_TITLES[level]}
                </th>
              ))}
            </tr>
          </thead>
          <tbody>
            {ROWS.map(([name, label, title]) => (
              <tr key={name}>
                <th scope="row" title={title}>
                  {label}
                </th>
                {report.levels.map((counts) => (
                  <td key={counts.level}>{grownText(counts, first, name)}</td>
                ))}
              </tr>
            ))}
          </tbody>
        </table>
      </section>
    </section>
  );
}

type CountName = Exclude<keyof LevelCounts, "level">;

const ROWS: readonly (readonly [CountName, string, string])[] = [
  ["hitTokens", "tokens found", "Prompt tokens found in this level and not computed"],
  ["onboarded", "blocks onboarded", "Loaded from this level to the one above"],
  ["offloaded", "evicted: offloaded", "Moved to the next level to make room"],
  ["forgotten", "evicted: forgotten", "No other block had the contents"],
  ["dropped", "evicted: dropped", "Another block still has the contents"],
  ["orphaned", "evicted: orphaned", "Forgotten with a prefix of theirs"],
  ["expired", "retention expired", "Durations of retention that ended"],
];

function grownText(counts: LevelCounts, first: Report, name: CountName): string {
  const before = first.levels.find(({ level }) => level === counts.level)?.[name] ?? 0;
  const grown = counts[name] - before;
  return grown > 0 ? `${count(counts[name])} (+${count(grown)})` : count(counts[name]);
}

/** Moves between levels: how much, and how fast. */
export function Moves({ report }: { report: Report }) {
  const rows = MOVES.filter(([name]) => (report.moves[name]?.blocks ?? 0) > 0);
  return (
    <section class="card" aria-label="Moves">
      <h2>Moves</h2>
      {rows.length === 0 && <p class="quiet">No block has moved.</p>}
      <ul class="moves">
        {rows.map(([name, label]) => {
          const { blocks, bytes: moved, seconds } = report.moves[name] ?? NO_MOVE;
          return (
            <li key={name}>
              <b>{label}</b> {count(blocks)} blocks, {bytes(moved)} in {duration(seconds)}
              {seconds > 0 ? ` (${bytes(moved / seconds)}/s)` : ""}
            </li>
          );
        })}
        {report.swappedOutBlocks > 0 && (
          <li>
            <b>swaps</b> {count(report.swappedOutBlocks)} blocks out,{" "}
            {count(report.swappedInBlocks)} in
          </li>
        )}
      </ul>
    </section>
  );
}

const NO_MOVE = { blocks: 0, bytes: 0, seconds: 0 };

const MOVES = [
  ["offload", "device to host"],
  ["onboard", "host to device"],
  ["diskWrite", "host to disk"],
  ["diskRead", "disk to host"],
  ["copy", "copied before a write"],
] as const;
