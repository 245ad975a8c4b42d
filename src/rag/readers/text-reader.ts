import type { Attributes } from "#rag/texts";
import type { FileContent, Reader } from "./reader.ts";
import { SectionList } from "./section-list.ts";
import { type DecodedText, decodeText } from "./text-bytes.ts";

/** Text without a structure: one section. */
export const textReader: Reader = {
  name: "text",
  endings: [".txt", ".text", ".log", ".rst", ".adoc", ".org", ".json", ".yaml", ".yml", ".toml"],
  async *read(file: FileContent) {
    const decoded = decodeText(file.bytes, file.id);
    const list = new SectionList(decoded.text);
    list.add(0, decoded.text.length, []);
    const { id, hash } = file;
    yield { id, hash, sections: list.sections, attributes: encodingAttributes(decoded) };
  },
};

/** Names an encoding that is not the usual one, since it may be a guess. */
export function encodingAttributes({ encoding }: DecodedText): Attributes {
  return encoding === "utf-8" ? {} : { encoding };
}
