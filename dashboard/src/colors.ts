/** Colours of the style sheet, for what is drawn rather than laid out. */

/** A custom property's value now. */
export function color(name: string): string {
  return getComputedStyle(document.documentElement).getPropertyValue(`--${name}`).trim();
}

const DARK = matchMedia("(prefers-color-scheme: dark)");

/** Calls back when dark and light change. Returns a function that stops it. */
export function onScheme(change: () => void): () => void {
  DARK.addEventListener("change", change);
  return () => DARK.removeEventListener("change", change);
}
