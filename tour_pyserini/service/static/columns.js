// All rounds side by side: a column for each list, and a line from each passage to its place in the next.

import { element, shape, spoken } from "./dom.js";
import { costWords, decimal, listsOf, movement, roundName } from "./path.js";

/** The columns of a path up to now. */
export function columnsOf(path) {
  const parts = [];
  listsOf(path).forEach((round, index) => {
    if (index > 0) parts.push(linesBetween(path.rounds[index - 1], round, path.relevant));
    parts.push(column(path, index));
  });
  return element(
    "div",
    {
      class: "columns",
      tabindex: "0",
      role: "region",
      "aria-label": `Rounds of ${path.method || "the search"} side by side`,
    },
    ...parts,
  );
}

function column(path, index) {
  const { candidates, cosine, costs, stop } = path.rounds[index];
  const facts = [costWords(costs)];
  if (index > 0 && cosine !== null) facts.push(`cosine to the first vector ${cosine.toFixed(3)}`);
  if (stop) facts.push(`stopped: ${stop}`);
  return element(
    "div",
    { class: "column", role: "group", "aria-label": roundName(path, index) },
    element("h4", {}, roundName(path, index)),
    element("p", { class: "quiet" }, facts.join("; ")),
    element("ol", {}, ...candidates.map((candidate) => cell(path, candidate, index))),
  );
}

function cell(path, candidate, index) {
  const { docid, title, words, rank, label } = candidate;
  const moved = movement(candidate, index);
  const isRelevant = path.relevant.has(docid);
  return element(
    "li",
    { "data-doc": docid, class: isRelevant ? "cell relevant" : "cell" },
    element("span", { class: "rank" }, String(rank)),
    element("span", { class: "first-words" }, title ? element("strong", {}, title, " ") : null, words || docid),
    element(
      "span",
      { class: "signs" },
      element("span", { class: "value" }, spoken(" label "), decimal(label)),
      moved && moved.kind !== "same"
        ? element(
            "span",
            { class: `sign ${moved.kind}` },
            element("span", { "aria-hidden": "true" }, moved.sign),
            spoken(`, ${moved.words}`),
          )
        : null,
      isRelevant ? element("span", { class: "sign relevant" }, "✓", spoken(" judged relevant")) : null,
    ),
  );
}

/** Lines from the ranks of one list to those of the next, in units of rows. */
function linesBetween(before, after, relevant) {
  const rows = Math.max(before.candidates.length, after.candidates.length, 1);
  const lines = [];
  for (const { docid, rank, rank_before: from } of after.candidates) {
    if (from === null || from > before.candidates.length) continue;
    const [y, v] = [from - 0.5, rank - 0.5];
    const kind = `${rank < from ? "rose" : "other"}${relevant.has(docid) ? " relevant" : ""}`;
    lines.push(shape("path", { "data-doc": docid, class: kind, d: `M0 ${y}C.5 ${y} .5 ${v} 1 ${v}` }));
  }
  const size = { viewBox: `0 0 1 ${rows}`, preserveAspectRatio: "none", "--rows": rows };
  return shape("svg", { class: "lines", "aria-hidden": "true", ...size }, ...lines);
}
