/** Texts come from requests, so a caller could make up any number of them. */
const REMEMBERED_MAX = 100;

/**
 * Passes each text on once. After `REMEMBERED_MAX` different ones it is silent: a log must not grow
 * with texts that callers make up.
 */
export function warnOnce(warn: (message: string) => void): (message: string) => void {
  const said = new Set<string>();
  return (message) => {
    if (said.has(message) || said.size >= REMEMBERED_MAX) return;
    said.add(message);
    warn(message);
  };
}
