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
  const format = isNode(tag) && isNode(tag.format) ? tag.format : {};
  const first: unknown = Array.isArray(format.tags) ? format.tags[0] : null;
  if (!isNode(first) || !isNode(first.content)) throw new Error("Not a list of tags");
  return `${first.begin}${JSON.stringify(instanceOf(first.content.json_schema))}${first.end}`;
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
