import { deflateSync } from "node:zlib";

/** A PDF with a line of text on each page, compressed; its table of objects is right. */
export function pdf(pages: readonly string[]): Uint8Array {
  return pdfOf(pages.map((text) => deflateSync(`BT /F1 24 Tf 72 720 Td (${escaped(text)}) Tj ET`)));
}

/** A PDF of pages with given compressed contents. */
export function pdfOf(contents: readonly Uint8Array[]): Uint8Array {
  const kids = contents.map((_, at) => `${4 + 2 * at} 0 R`).join(" ");
  const objects: (string | Buffer)[] = [
    "<< /Type /Catalog /Pages 2 0 R >>",
    `<< /Type /Pages /Kids [${kids}] /Count ${contents.length} >>`,
    "<< /Type /Font /Subtype /Type1 /BaseFont /Helvetica >>",
  ];
  for (const [at, bytes] of contents.entries()) {
    const resources = "/Resources << /Font << /F1 3 0 R >> >>";
    const box = "/MediaBox [0 0 612 792]";
    objects.push(`<< /Type /Page /Parent 2 0 R ${box} /Contents ${5 + 2 * at} 0 R ${resources} >>`);
    const head = `<< /Length ${bytes.length} /Filter /FlateDecode >>\nstream\n`;
    objects.push(Buffer.concat([Buffer.from(head), bytes, Buffer.from("\nendstream")]));
  }
  return written(objects);
}

function written(objects: readonly (string | Buffer)[]): Uint8Array {
  const parts = [Buffer.from("%PDF-1.4\n")];
  const places: number[] = [];
  const length = () => parts.reduce((sum, part) => sum + part.length, 0);
  for (const [at, object] of objects.entries()) {
    places.push(length());
    parts.push(Buffer.from(`${at + 1} 0 obj\n`), Buffer.from(object), Buffer.from("\nendobj\n"));
  }
  const start = length();
  const rows = places.map((place) => `${String(place).padStart(10, "0")} 00000 n \n`).join("");
  const count = objects.length + 1;
  parts.push(
    Buffer.from(`xref\n0 ${count}\n0000000000 65535 f \n${rows}`),
    Buffer.from(`trailer\n<< /Size ${count} /Root 1 0 R >>\nstartxref\n${start}\n%%EOF`),
  );
  return Buffer.concat(parts);
}

function escaped(text: string): string {
  return text.replace(/[\\()]/g, "\\$&");
}
