// The page: a form that starts one search or two, or a search that was recorded in the page itself.

import { element, replace } from "./dom.js";
import { Pane } from "./pane.js";
import { addWholeChange, counted, newPath, presetOf, summary, take } from "./path.js";
import { eventsOf, jsonOf } from "./stream.js";

const byId = (id) => document.getElementById(id);
const TITLE = byId("title").textContent;
let running = new AbortController();
let isJudged = false; // whether the service keeps judgements
let shown = [];

const recorded = byId("recorded");
if (recorded) showRecorded(JSON.parse(recorded.textContent));
else openForm();

/** Show a search that the page brings along. */
function showRecorded({ query, relevant, events, texts }) {
  byId("form").remove();
  replace(byId("title"), query);
  document.title = query;
  const path = Object.assign(newPath(query, { relevant }), { isRecorded: true });
  for (const event of events) take(path, event);
  addWholeChange(path);
  for (const [docid, words] of Object.entries(texts))
    if (!path.texts.has(docid)) path.texts.set(docid, { title: "", words });
  const pane = new Pane(path, async (docid) => texts[docid] ?? "The page does not hold the whole passage.");
  show([pane]);
  const looked = counted(Object.keys(texts).length, "passage");
  replace(byId("status"), `${looked} looked at${path.relevant.size ? `, ${path.relevant.size} judged relevant` : ""}.`);
}

/** Fill the form with what the service offers, and search for what the address asks for. */
async function openForm() {
  const form = byId("form");
  form.addEventListener("submit", (event) => {
    event.preventDefault();
    const asked = new URLSearchParams([...new FormData(form)].filter(([name, value]) => value && name !== "key"));
    history.pushState(null, "", `?${asked}`);
    search(asked);
  });
  addEventListener("popstate", () => restore(form));
  byId("key").addEventListener("change", () => {
    tell("");
    offer(form);
  });
  // At once: what is typed, or searched for, while the service is slow to answer must stay.
  const { search: opened } = location;
  const asked = fill(form);
  if (!asked.get("query")) form.elements.query.focus();
  await offer(form);
  if (asked.get("query") && location.search === opened) search(asked);
}

/** Fill the form with what the service says of itself, which may need a key. */
async function offer(form) {
  try {
    const about = await jsonOf("about", { key: byId("key").value });
    for (const [field, standard, more] of [
      [form.elements.method, about.method, []],
      [form.elements.compare, "", [new Option("nothing", "", true)]],
    ]) {
      const chosen = field.value || new URLSearchParams(location.search).get(field.name);
      replace(
        field,
        more,
        [...new Set(about.choices.map(({ group }) => group))].map((group) => groupOf(group, about.choices)),
      );
      field.value = about.choices.some(({ value }) => value === chosen) ? chosen : standard;
    }
    isJudged = about.judgements;
    form.elements.hits.max = about.most_hits;
    form.elements.budget.max = about.most_labels;
    const routes = element("a", { href: "docs" }, "Routes for programs");
    replace(byId("about"), `${about.documents.toLocaleString("en")} documents. `, routes, ".");
    const buttons = about.examples.map((query) =>
      element("button", { type: "button", click: () => example(form, query) }, query),
    );
    replace(byId("examples"), buttons.length ? element("h2", {}, "For example") : null, ...buttons);
  } catch (error) {
    refuse(error);
  }
}

/** The methods of a group, each with a line about it. */
function groupOf(group, choices) {
  const own = choices.filter((choice) => choice.group === group);
  const options = own.map(({ value, name, about }) =>
    element("option", { value, label: about ? `${name}: ${about}` : name }, name),
  );
  return element("optgroup", { label: group }, ...options);
}

function example(form, query) {
  form.elements.query.value = query;
  form.requestSubmit();
}

/** Put the address into the form; what it asks for. */
function fill(form) {
  const asked = new URLSearchParams(location.search);
  const key = byId("key").value;
  form.reset();
  for (const field of form.elements) if (asked.has(field.name)) field.value = asked.get(field.name);
  byId("key").value = key; // never from an address
  return asked;
}

/** Put the address into the form, and search; without a query, begin anew. */
function restore(form) {
  const asked = fill(form);
  if (asked.get("query")) return search(asked);
  running.abort();
  show([]);
  replace(byId("title"), TITLE);
  document.title = "TouR";
  form.elements.query.focus();
}

/** Search with one method or two at the same time, and show their rounds as they arrive. */
function search(asked) {
  running.abort();
  running = new AbortController();
  const query = asked.get("query");
  const methods = [asked.get("method"), asked.get("compare")].filter((name, i) => i === 0 || name);
  const judge = isJudged ? (docid, grade) => keep(query, docid, grade) : null;
  const panes = methods.map((method) => new Pane(newPath(query, { method: method ?? "" }), whole, judge));
  replace(byId("title"), query);
  document.title = `${query} – TouR`;
  tell("");
  show(panes);
  for (const [i, pane] of panes.entries()) follow(pane, addressOf(asked, methods[i]), running.signal);
}

/** Show these searches; none of them: how to begin. */
function show(panes) {
  shown = panes;
  byId("start").hidden = panes.length > 0;
  if (panes.length === 2) panes.forEach((pane, i) => pane.beside(panes[1 - i], () => compare(panes[1 - i])));
  byId("panes").classList.toggle("two", panes.length === 2);
  replace(byId("together"), "");
  replace(
    byId("panes"),
    panes.map(({ node }) => node),
  );
  for (const pane of panes) pane.update(); // the map needs to know its width
}

/** Show the events of a search as they arrive. */
async function follow(pane, address, signal) {
  const { path } = pane;
  const name = () => (pane.other ? `${path.method}: ` : "");
  replace(byId("status"), "Searching …");
  try {
    for await (const event of eventsOf(address, { signal, key: byId("key").value })) {
      take(path, event);
      pane.update();
      if (event.event === "round") replace(byId("status"), name() + summary(path, path.rounds.length - 1));
      if (event.event === "answer") replace(byId("status"), `${byId("status").textContent} Done: ${path.stop}.`);
    }
    if (path.error === null && path.costs === undefined) path.error = "The service ended the search before its answer.";
  } catch (error) {
    if (error.name === "AbortError") return;
    path.error = error.message;
    refuse(error);
  }
  if (path.error !== null) {
    pane.update();
    tell(name() + path.error);
  }
}

/** Tell how much two lists have in common, when the list beside `other` has changed. */
function compare(other) {
  other.refresh();
  const ranks = other.others()?.ranks;
  if (!ranks || other.index < 0) return;
  const { candidates } = other.path.rounds[other.index];
  const both = candidates.filter(({ docid }) => ranks.has(docid)).length;
  replace(byId("together"), `${both} of ${counted(candidates.length, "passage")} are in both lists.`);
}

/** Keep a judgement, and show it in all lists. */
async function keep(query, docid, relevance) {
  try {
    await jsonOf("judgements", { key: byId("key").value, sent: { query, docid, relevance } });
    tell("");
    for (const pane of shown.filter(({ path }) => path.query === query)) {
      pane.path.judged.set(docid, relevance);
      pane.refresh();
    }
    replace(byId("status"), `Kept: ${relevance ? "relevant" : "not relevant"}.`);
  } catch (error) {
    refuse(error);
  }
}

function addressOf(asked, method) {
  const wanted = new URLSearchParams([...asked].filter(([name]) => name !== "compare" && name !== "method"));
  if (method) wanted.set(presetOf(method) ? "preset" : "method", presetOf(method) ?? method);
  return `search/stream?${wanted}`;
}

async function whole(docid) {
  return (await jsonOf(`documents/${encodeURIComponent(docid)}`, { key: byId("key").value })).contents;
}

/** Show why the service refused; where a key is missing, also the field for it. */
function refuse(error) {
  tell(error.message);
  if (error.status === 401) byId("more").open = true;
}

/** Show a problem; an empty text takes it away. */
function tell(problem) {
  replace(byId("problem"), problem);
  byId("problem").hidden = !problem;
  if (problem) replace(byId("status"), "");
}
