import { EngineError, valueText } from "#base";
import type { GenerateOptions, KvSource } from "#engine/protocol";

const DEADLINE_MS = 600_000;
/** Timers hold no more. */
const DEADLINE_MS_MAX = 2 ** 31 - 1;
const HOST_LENGTH_MAX = 253;
const PORT_MAX = 65_535;

/**
 * Where keys and values of a call's prompts come from; null: nowhere. Throws INVALID_ARGUMENT, also
 * where the engine has no way to others (`canFetch`).
 */
export function kvSourceOf(
  { kvSource }: Pick<GenerateOptions, "kvSource">,
  canFetch: boolean,
): KvSource | null {
  if (kvSource === undefined) return null;
  const { host, port, compute = false, deadlineMs = DEADLINE_MS, prefix } = kvSource;
  checkAddress("", { host, port });
  if (prefix !== undefined) checkAddress("prefix.", prefix);
  check("compute", typeof compute === "boolean", "true or false", compute);
  check("deadlineMs", isIn(deadlineMs, 1, DEADLINE_MS_MAX), `1 to ${DEADLINE_MS_MAX}`, deadlineMs);
  if (!canFetch) {
    throw new EngineError(
      "INVALID_ARGUMENT",
      "Cannot use kvSource: the model must be loaded with kvTransfer, this one is not",
      { param: "kvSource" },
    );
  }
  const from = prefix === undefined ? null : { host: prefix.host, port: prefix.port };
  return { peer: { host, port }, compute, deadlineMs, prefix: from };
}

function checkAddress(
  place: string,
  { host, port }: { readonly host: unknown; readonly port: unknown },
): void {
  const isName = typeof host === "string" && host !== "" && host.length <= HOST_LENGTH_MAX;
  check(`${place}host`, isName, "the name or address of a machine", host);
  check(`${place}port`, isIn(port, 1, PORT_MAX), `1 to ${PORT_MAX}`, port);
}

function isIn(value: unknown, least: number, most: number): boolean {
  return Number.isInteger(value) && Number(value) >= least && Number(value) <= most;
}

function check(name: string, isRight: boolean, wanted: string, value: unknown): void {
  if (isRight) return;
  throw new EngineError(
    "INVALID_ARGUMENT",
    `Cannot use kvSource.${name}: must be ${wanted}, current value is ${valueText(value)}`,
    { param: `kvSource.${name}` },
  );
}
