import { expect, test } from "vitest";
import { safeName } from "../../../src/rag/http/safe-name.ts";

test.for<[string | undefined, string]>([
  ["report.pdf", "report.pdf"],
  ["../../etc/passwd", "passwd"],
  ["C:\\Users\\me\\notes.md", "notes.md"],
  ["/", "file"],
  ["..", "file"],
  ["", "file"],
  [undefined, "file"],
  ["a\u0000b\r\nc.txt", "abc.txt"],
  ["in\u202evoice.txt", "invoice.txt"],
  ["a\ud800.md", "a\ufffd.md"],
  ["e\u0301.md", "\u00e9.md"],
  ["  spaced.md ", "spaced.md"],
  [`${"x".repeat(300)}.md`, `${"x".repeat(252)}.md`],
  ["y".repeat(300), "y".repeat(255)],
  [".env", ".env"],
])("[RG104] %j becomes %j", ([given, name]) => {
  expect(safeName(given)).toBe(name);
});
