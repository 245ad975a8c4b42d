/** PDF: the text of each page. */
import { getDocumentProxy } from "unpdf";
import { EngineError, messageOf } from "#base";
import type { Section } from "#rag/texts";
import type { FileContent, Reader } from "./reader.ts";

/** Reads PDF; a section is a page. Pages that are pictures have no text. */
export const pdfReader: Reader = {
  name: "pdf",
  endings: [".pdf"],
  async *read(file: FileContent) {
    const sections: Section[] = [];
    // The parser takes the bytes away from their owner.
    const bytes = Uint8Array.from(file.bytes);
    try {
      const document = await getDocumentProxy(bytes, { isEvalSupported: false, verbosity: 0 });
      for (let page = 1; page <= document.numPages; page++) {
        const text = await pageText(document, page);
        if (text.trim() !== "") sections.push({ text, line: null, page, headings: [] });
      }
      await document.destroy();
    } catch (cause) {
      const message = `Cannot read ${JSON.stringify(file.id)}: it must be a PDF that opens`;
      throw new EngineError("INVALID_ARGUMENT", `${message}, ${messageOf(cause)}`, { cause });
    }
    yield { id: file.id, hash: file.hash, sections, attributes: {} };
  },
};

async function pageText(
  document: Awaited<ReturnType<typeof getDocumentProxy>>,
  number: number,
): Promise<string> {
  const page = await document.getPage(number);
  const { items } = await page.getTextContent();
  // The package's declaration of it is empty: pieces of text, and marks of structure without text.
  const pieces = items as readonly { readonly str?: string; readonly hasEOL?: boolean }[];
  const text = pieces.map(({ str = "", hasEOL }) => (hasEOL ? `${str}\n` : str)).join("");
  page.cleanup();
  return text;
}
