/** Names of files as clients send them, made harmless: shown, and never used as paths. */

const LENGTH_MAX = 255;
const ENDING_MAX = 16;
/** Control characters, and those that change the direction of what follows. */
const HIDDEN = /[\p{Cc}\p{Cf}\p{Zl}\p{Zp}]/gu;

/** The last part of a path, without hidden characters; `file` where nothing is left. */
export function safeName(given: string | undefined): string {
  const last = (given ?? "").split(/[/\\]/).at(-1) ?? "";
  const name = last.toWellFormed().normalize("NFC").replace(HIDDEN, "").trim();
  if (/^\.*$/.test(name)) return "file";
  if (name.length <= LENGTH_MAX) return name;
  const dot = name.lastIndexOf(".");
  const ending = dot > 0 && name.length - dot <= ENDING_MAX ? name.slice(dot) : "";
  return name.slice(0, LENGTH_MAX - ending.length).toWellFormed() + ending;
}
