// The page of the routes: what openapi.json says, to read.

import { element, replace } from "./dom.js";
import { jsonOf } from "./stream.js";

const byId = (id) => document.getElementById(id);

byId("form").addEventListener("submit", (event) => {
  event.preventDefault();
  show();
});
show();

/** Fetch the description and show it; where a key is needed, ask for it. */
async function show() {
  const [problem, form] = [byId("problem"), byId("form")];
  try {
    const api = await jsonOf("openapi.json", { key: byId("key").value });
    problem.hidden = form.hidden = true;
    const operations = operationsOf(api);
    replace(byId("contents"), element("ul", {}, ...operations.map(contentsLine)));
    const parts = [...groupsOf(operations).map(groupSection), problemsSection(operations)];
    replace(byId("all"), ...parts, messagesSection(api.components.schemas));
  } catch (error) {
    problem.hidden = false;
    replace(problem, error.message);
    if (error.status !== 401) return;
    form.hidden = false;
    byId("key").focus();
  }
}

/** Each method of each path, with the schema of its body. */
function operationsOf({ paths, components }) {
  return Object.entries(paths).flatMap(([path, methods]) =>
    Object.entries(methods).map(([method, operation]) => {
      const body = schemaOf(operation.requestBody);
      const schema = body?.$ref ? components.schemas[nameOf(body.$ref)] : body;
      return { ...operation, path, method: method.toUpperCase(), id: `${method}-${path}`, body, example: schema?.examples?.[0] };
    }),
  );
}

/** [tag, operations] in the order in which tags appear. */
function groupsOf(operations) {
  const tags = [...new Set(operations.map(({ tags: [tag] }) => tag))];
  return tags.map((tag) => [tag, operations.filter((each) => each.tags[0] === tag)]);
}

function contentsLine({ id, method, path }) {
  return element("li", {}, element("a", { href: `#${id}` }, `${method} ${path}`));
}

function groupSection([tag, operations]) {
  return element("section", {}, element("h2", {}, tag[0].toUpperCase() + tag.slice(1)), ...operations.flatMap(operationParts));
}

/** What a route does, what it takes, an example, and what it answers. */
function operationParts(operation) {
  const { id, method, path, description, summary, parameters = [], body, responses } = operation;
  const given = parameters.map(({ name, required, schema, description: words }) => [name, schema, required, words]);
  const answers = Object.entries(responses).filter(([status]) => status < 400);
  return [
    element("h3", { id }, element("code", {}, `${method} ${path}`)),
    ...(description ?? summary).split("\n\n").map((words) => element("p", {}, ...worded(words))),
    ...(given.length ? [element("h4", {}, "Parameters"), fieldsTable(given)] : []),
    ...(body ? [element("p", {}, "Body: ", ...typeOf(body), ".")] : []),
    element("h4", {}, "Example"),
    element("pre", { tabindex: "0", "aria-label": `Example of ${method} ${path}` }, exampleOf(operation)),
    element("h4", {}, "Answers"),
    answersTable(answers),
  ];
}

/** What goes wrong, once for all routes: nearly all of it can happen to each of them. */
function problemsSection(operations) {
  const all = operations.flatMap(({ responses }) => Object.entries(responses).filter(([status]) => status >= 400));
  const problems = [...new Map(all)].sort(([one], [other]) => one - other);
  return element("section", {}, element("h2", {}, "Problems"), answersTable(problems));
}

function answersTable(answers) {
  const rows = answers.map(([status, answer]) => [
    status,
    typeOf(schemaOf(answer) ?? {}, Object.keys(answer.content ?? {})[0]),
    worded(answer.description === "Successful Response" ? "the answer" : answer.description),
  ]);
  return table(["status", "data", "meaning"], rows);
}

/** A command that asks a route; parts of paths are in braces, required parameters have their names as values. */
function exampleOf({ method, path, parameters = [], body, example }) {
  const asked = parameters.filter((each) => each.in === "query" && each.required).map(({ name }) => `${name}=${name.toUpperCase()}`);
  const address = new URL(path.slice(1), new URL(".", location));
  const where = decodeURI(address.href) + (asked.length ? `?${asked.join("&")}` : "");
  if (!body) return `curl -s '${where}'`;
  return `curl -s ${method === "POST" ? "" : `-X ${method} `}'${where}' -H 'Content-Type: application/json' \\\n  -d '${JSON.stringify(example ?? {})}'`;
}

function messagesSection(schemas) {
  const parts = Object.entries(schemas).flatMap(([name, { description, properties = {}, required = [] }]) => [
    element("h3", { id: `message-${name}` }, name),
    ...(description ? [element("p", {}, ...worded(description))] : []),
    fieldsTable(Object.entries(properties).map(([field, schema]) => [field, schema, required.includes(field), schema.description])),
  ]);
  return element("section", {}, element("h2", {}, "Messages"), ...parts);
}

function fieldsTable(fields) {
  const rows = fields.map(([name, schema, required, words]) => {
    const standard = schema.default ?? null;
    const need = required ? "required" : standard === null || standard === "" ? "" : JSON.stringify(standard);
    return [name, typeOf(schema), need, worded(words ?? "")];
  });
  return table(["field", "type", "default", "meaning"], rows);
}

/** A table; the first cell of each row is its name. */
function table(head, rows) {
  const line = ([name, ...cells]) =>
    element("tr", {}, element("th", { scope: "row" }, element("code", {}, name)), ...cells.map((cell) => element("td", {}, ...[cell].flat())));
  return element(
    "div",
    { class: "wide" },
    element(
      "table",
      {},
      element("thead", {}, element("tr", {}, ...head.map((name) => element("th", { scope: "col" }, name)))),
      element("tbody", {}, ...rows.map(line)),
    ),
  );
}

/** The type of a schema in words, with links to messages. */
function typeOf(schema, unknown = "any") {
  const { $ref: address, anyOf, type, items, prefixItems, additionalProperties: values } = schema;
  if (address) return [element("a", { href: `#message-${nameOf(address)}` }, nameOf(address))];
  if (anyOf) return anyOf.flatMap((each, i) => (i ? [" or ", ...typeOf(each)] : typeOf(each)));
  if (type === "array") return ["list of ", ...(items ? typeOf(items) : prefixItems ? typeOf(prefixItems[0]) : ["any"])];
  if (type === "object" && values instanceof Object) return ["by name: ", ...typeOf(values)];
  return [type ?? unknown];
}

/** Words in which `code` is in backticks. */
function worded(words) {
  return words.split("`").map((part, i) => (i % 2 ? element("code", {}, part) : part));
}

function schemaOf(holder) {
  return Object.values(holder?.content ?? {})[0]?.schema;
}

function nameOf(address) {
  return address.split("/").pop();
}
