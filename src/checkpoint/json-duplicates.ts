/**
 * Finds a key that one JSON object has twice, which JSON.parse accepts silently: two readers may
 * then use different entries for one tensor.
 */

/** The first repeated key, or null. The text must be valid JSON. */
export function duplicateKey(text: string): string | null {
  // One set of keys per open object; null for an open array.
  const open: (Set<string> | null)[] = [];
  let at = 0;
  while (at < text.length) {
    const character = text[at];
    if (character === "{") open.push(new Set());
    else if (character === "[") open.push(null);
    else if (character === "}" || character === "]") open.pop();
    else if (character === '"') {
      const end = stringEnd(text, at);
      const keys = open.at(-1);
      if (keys && followedByColon(text, end)) {
        const key = String(JSON.parse(text.slice(at, end)));
        if (keys.has(key)) return key;
        keys.add(key);
      }
      at = end - 1;
    }
    at += 1;
  }
  return null;
}

/** The place after the closing quote of the string that opens at `start`. */
function stringEnd(text: string, start: number): number {
  let at = start + 1;
  while (text[at] !== '"') at += text[at] === "\\" ? 2 : 1;
  return at + 1;
}

function followedByColon(text: string, from: number): boolean {
  let at = from;
  while (/\s/.test(text[at] ?? "")) at += 1;
  return text[at] === ":";
}
