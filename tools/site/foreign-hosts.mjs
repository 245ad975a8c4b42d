/** Whether a built site asks another host for anything; links that a reader follows may. */
import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";

/** What browsers load by themselves, in HTML and in CSS. */
const HOST = String.raw`(?:https?:)?\/\/[^"'\s>)]+`;
const LOADED = [
  String.raw`<(?:script|img|iframe|source|video|audio|embed|object)\b[^>]*\b(?:src|data)="?${HOST}`,
  String.raw`<link\b[^>]*\bhref="?${HOST}`,
  String.raw`\burl\(["']?${HOST}`,
  String.raw`@import\s+["']${HOST}`,
].map((pattern) => new RegExp(pattern, "gi"));
/** In scripts: what is imported, fetched or connected to at a fixed address. */
const ASKED =
  /\b(?:fetch|import|importScripts|WebSocket|EventSource|Worker)\(\s*["'`](?:\w+:)?\/\/[^"'`]+/g;
const POLICY = /<meta http-equiv="content-security-policy" content="default-src 'self';/;

/** One line for each, and for each page without the policy that refuses all others. */
export function foreignHosts(folder) {
  const problems = [];
  for (const file of readdirSync(folder, { recursive: true }).map(String)) {
    // Copies of the repository's files are shown as text.
    if (!/\.(html|css|js)$/.test(file)) continue;
    const text = readFileSync(join(folder, file), "utf8");
    const found = file.endsWith(".js") ? [ASKED] : LOADED;
    for (const pattern of found) {
      for (const [use] of text.matchAll(pattern))
        problems.push(`${file} asks another host: ${use}`);
    }
    if (file.endsWith(".html") && !POLICY.test(text)) problems.push(`${file} has no policy`);
  }
  return problems;
}
