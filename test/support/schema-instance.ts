/** The plainest value that a JSON schema accepts; knows what the tests' schemas use. */
export function instanceOf(schema: unknown): unknown {
  const node = isNode(schema) ? schema : {};
  if ("const" in node) return node.const;
  if (Array.isArray(node.enum)) return node.enum[0];
  if (Array.isArray(node.anyOf)) return instanceOf(node.anyOf[0]);
  switch (node.type) {
    case "object":
      return objectOf(node);
    case "array":
      return Array.from({ length: Number(node.minItems ?? 0) }, () => instanceOf(node.items));
    case "string":
      return "word";
    case "boolean":
      return true;
    case "integer":
    case "number":
      return 7;
    default:
      return null;
  }
}

/** The shortest text that a structural tag of forced tool calls accepts. */
export function instanceOfTag(tag: unknown): string {
  return textOf(isNode(tag) ? tag.format : null);
}

function textOf(format: unknown): string {
  const node = isNode(format) ? format : {};
  const [first] = listOf(node.tags ?? node.elements);
  switch (node.type) {
    case "const_string":
      return String(node.value);
    case "any_text":
      return "word";
    case "json_schema":
      return JSON.stringify(instanceOf(node.json_schema));
    case "sequence":
      return listOf(node.elements).map(textOf).join("");
    case "tag":
      return `${node.begin}${textOf(node.content)}${node.end}`;
    case "or":
    case "tags_with_separator":
      return textOf(first);
    default:
      throw new Error(`Not a part of forced calls: ${node.type}`);
  }
}

function listOf(value: unknown): readonly unknown[] {
  return Array.isArray(value) ? value : [];
}

type Node = Readonly<Record<string, unknown>>;

function isNode(value: unknown): value is Node {
  return typeof value === "object" && value !== null;
}

function objectOf(schema: Node): Record<string, unknown> {
  const properties = isNode(schema.properties) ? schema.properties : {};
  const entries = Object.entries(properties).map(([name, inner]) => [name, instanceOf(inner)]);
  return Object.fromEntries(entries);
}
