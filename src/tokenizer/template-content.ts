/**
 * What is seen in a parsed chat template, and changed: does it walk over a message's content
 * parts, or does it want one string; what do its calls go to.
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

/** Makes calls of one function calls of another. */
export function renameCalls(program: unknown, from: string, to: string): void {
  for (const node of nodesOf(program)) {
    const { callee } = node;
    const isCall = node.type === "CallExpression" && isNode(callee);
    if (isCall && callee.type === "Identifier" && callee.value === from) {
      Object.assign(callee, { value: to });
    }
  }
}
