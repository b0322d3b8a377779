// The list of a round: passages that move to their new ranks, with what moved them.

import { element, isStill, replace, spoken } from "./dom.js";
import { beginning, decimal, movement, range, reason, share } from "./path.js";

/** The list of one search. The item of a passage is kept from round to round, so that it can be followed. */
export class PassageList {
  /** `read(docid)` gives the whole passage; `judge(docid, grade)` keeps a judgement, null where that is not done. */
  constructor(read, judge) {
    this.read = read;
    this.judge = judge;
    this.items = new Map();
    this.node = element("ol", { class: "list" });
  }

  /** Show a round; `others` are ranks in the list that it is compared with, null if there is none. */
  show(path, index, others) {
    const { candidates } = path.rounds[index];
    const places = new Map([...this.items].map(([docid, { node }]) => [docid, node.getBoundingClientRect().top]));
    const focused = this.node.contains(document.activeElement) ? document.activeElement : null;
    const labels = range(candidates.map(({ label }) => label));
    const similarities = range(candidates.flatMap((each) => [each.similarity, each.similarity_before]));
    const items = new Map();
    for (const candidate of candidates) {
      const item = this.items.get(candidate.docid) ?? new Item(candidate, this.read, this.judge);
      item.show(candidate, index, {
        labels,
        similarities,
        others,
        first: beginning(path, candidate, index),
        isRelevant: path.relevant.has(candidate.docid),
        grade: path.judged.get(candidate.docid),
      });
      items.set(candidate.docid, item);
    }
    this.items = items;
    replace(
      this.node,
      [...items.values()].map(({ node }) => node),
    );
    focused?.isConnected && focused.focus({ preventScroll: true });
    if (!isStill()) for (const [docid, { node }] of items) moveFrom(node, places.get(docid));
  }
}

class Item {
  constructor({ docid, title, words }, read, judge) {
    this.docid = docid;
    this.rank = element("span", { class: "rank" });
    this.notes = element("p", { class: "notes" });
    this.facts = element("dl", { class: "facts" });
    this.whole = element("p", { class: "whole", hidden: true });
    this.button = element(
      "button",
      { type: "button", class: "words", "aria-expanded": "false", click: () => this.toggle(read) },
      title ? element("strong", {}, title, " ") : null,
      words || (title ? null : docid),
    );
    this.judgements = judge
      ? [
          [1, "Relevant"],
          [0, "Not relevant"],
        ].map(([grade, name]) => ({
          grade,
          button: element("button", { type: "button", "aria-pressed": "false", click: () => judge(docid, grade) }, name),
        }))
      : [];
    this.node = element(
      "li",
      { "data-doc": docid, class: "hit" },
      this.rank,
      this.button,
      this.notes,
      this.facts,
      judge
        ? element(
            "div",
            { class: "judge", role: "group", "aria-label": `Judge ${title || docid}` },
            ...this.judgements.map(({ button }) => button),
          )
        : null,
      this.whole,
    );
  }

  show(candidate, index, { labels, similarities, others, first, isRelevant, grade }) {
    const moved = movement(candidate, index);
    const why = reason(candidate, index);
    replace(this.rank, spoken("Rank "), String(candidate.rank));
    for (const each of this.judgements) each.button.setAttribute("aria-pressed", String(each.grade === judgedAs(grade)));
    const notes = [
      moved && element("span", { class: `mark ${moved.kind}`, "aria-hidden": "true" }, moved.sign),
      isRelevant ? element("span", { class: "mark relevant" }, "✓ judged relevant") : null,
      moved && `${moved.words}${why ? `: ${why}` : ""}.`,
      first,
      others && elsewhere(others, candidate.docid),
      element("span", { class: "docid" }, spoken("Docid "), candidate.docid),
    ];
    replace(
      this.notes,
      notes.filter(Boolean).flatMap((note) => [note, " "]),
    );
    replace(
      this.facts,
      fact("label", ...label(candidate, labels)),
      fact("similarity", ...similarity(candidate, similarities)),
      typeof candidate.relevance === "number" ? fact("relevance", `${Math.round(100 * candidate.relevance)} %`) : null,
    );
  }

  async toggle(read) {
    const isOpen = this.whole.hidden;
    this.button.setAttribute("aria-expanded", String(isOpen));
    this.whole.hidden = !isOpen;
    if (isOpen && !this.whole.textContent) {
      replace(this.whole, "Reading …");
      replace(this.whole, await read(this.docid).catch((error) => error.message));
    }
  }
}

/** What a grade says: 1 for relevant in some degree, 0 for not relevant; undefined where nobody has judged. */
function judgedAs(grade) {
  return grade > 0 ? 1 : grade;
}

function elsewhere({ name, ranks }, docid) {
  return ranks.has(docid) ? `Rank ${ranks.get(docid)} with ${name}.` : `Not in the list of ${name}.`;
}

function fact(name, words, picture) {
  return element("div", { class: name }, element("dt", {}, name), element("dd", {}, words, picture));
}

/** The label as a number, and as a bar that is longer the better it is. */
function label({ label: value, bought }, labels) {
  if (value === null) return ["none", null];
  const bar = element("span", { class: "bar", "aria-hidden": "true", "--share": 0.04 + 0.96 * share(value, labels) });
  return [element("span", {}, decimal(value), bought ? spoken(", bought in this round") : null), bar];
}

/** The similarity before and after, as numbers and as two dots on a line. */
function similarity({ similarity: now, similarity_before: earlier }, similarities) {
  if (now === null) return ["not known", null];
  const before = earlier === now ? null : earlier;
  const dots = [before, now].map((value, i) =>
    value === null ? null : element("i", { class: i ? "after" : "before", "--share": share(value, similarities) }),
  );
  const line = element("span", { class: "line", "aria-hidden": "true" }, ...dots);
  const words = before === null ? decimal(now) : [decimal(before), arrow(), decimal(now)];
  return [element("span", {}, ...[words].flat()), line];
}

function arrow() {
  return element("span", {}, element("span", { "aria-hidden": "true" }, " → "), spoken(" before, now "));
}

/** Let an item move from where it was to where it is; a new one appears. */
function moveFrom(node, top) {
  const timing = { duration: 600, easing: "cubic-bezier(.2, .7, .2, 1)" };
  if (top === undefined) return void node.animate([{ opacity: 0 }, { opacity: 1 }], timing);
  const distance = top - node.getBoundingClientRect().top;
  if (distance) node.animate([{ transform: `translateY(${distance}px)` }, { transform: "none" }], timing);
}
