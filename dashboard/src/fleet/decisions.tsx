/** Decisions of the router as it logs them, the newest first. */
export function Decisions({ lines }: { lines: readonly string[] }) {
  return (
    <section class="card wide" aria-label="Decisions">
      <h2>Decisions</h2>
      {lines.length === 0 && <p class="quiet">None since this page was opened.</p>}
      <ol class="decisions" tabIndex={0} aria-label="Decisions, the newest first">
        {lines.slice(0, 60).map((line, at) => (
          <li key={lines.length - at}>
            <Decision line={line} />
          </li>
        ))}
      </ol>
    </section>
  );
}

function Decision({ line }: { line: string }) {
  const fields = fieldsOf(line);
  return (
    <details>
      <summary>
        {Object.entries(fields)
          .filter(([, value]) => typeof value !== "object")
          .slice(0, 6)
          .map(([name, value]) => (
            <span key={name}>
              <span class="quiet">{name}</span> {String(value)}{" "}
            </span>
          ))}
      </summary>
      <pre tabIndex={0}>{JSON.stringify(fields, null, 2)}</pre>
    </details>
  );
}

function fieldsOf(line: string): object {
  try {
    return JSON.parse(line) as object;
  } catch {
    return { line };
  }
}
