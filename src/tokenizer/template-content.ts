/**
 * Inspects and changes a parsed chat template: whether it loops over a message's content parts or
 * expects one string; the functions that its calls name.
 */

type Node = Readonly<Record<string, unknown>>;

const isNode = (value: unknown): value is Node => typeof value === "object" && value !== null;

function* nodesOf(value: unknown): Generator<Node> {
  if (Array.isArray(value)) {
    for (const item of value) yield* nodesOf(item);
  } else if (isNode(value)) {
    yield value;
    yield* nodesOf(Object.values(value));
  }
}

/** `message.content`, `message["content"]`, or a variable that was set to it. */
function isContent(node: unknown, aliases: ReadonlySet<unknown>): boolean {
  if (!isNode(node)) return false;
  if (node.type === "Identifier") return aliases.has(node.value);
  if (node.type === "FilterExpression") return isContent(node.operand, aliases);
  return node.type === "MemberExpression" && isNode(node.property)
    ? node.property.value === "content"
    : false;
}

/** Whether the parsed template (`Template.parsed`) has a loop over content. */
export function loopsOverContent(program: unknown): boolean {
  const nodes = [...nodesOf(program)];
  const aliases = new Set(
    nodes
      .filter((node) => node.type === "Set" && isContent(node.value, new Set()))
      .map((node) => (isNode(node.assignee) ? node.assignee.value : undefined)),
  );
  return nodes.some((node) => node.type === "For" && isContent(node.iterable, aliases));
}

/** Redirects calls of function `from` to function `to`. */
export function renameCalls(program: unknown, from: string, to: string): void {
  for (const node of nodesOf(program)) {
    const { callee } = node;
    const isCall = node.type === "CallExpression" && isNode(callee);
    if (isCall && callee.type === "Identifier" && callee.value === from) {
      Object.assign(callee, { value: to });
    }
  }
}
