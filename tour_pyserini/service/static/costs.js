// What a search has cost so far, and in which round.

import { element } from "./dom.js";
import { counted, duration, listsOf, roundName } from "./path.js";

/** The costs up to the round that is shown: figures, and a table of rounds with bars. */
export function costsOf(path, index) {
  const { costs } = path.rounds[index];
  const isTimed = costs.milliseconds !== undefined;
  const figures = [
    figure(costs.labels, costs.labels === 1 ? "label" : "labels"),
    figure(costs.updates, costs.updates === 1 ? "update" : "updates"),
  ];
  if (isTimed) figures.push(figure(duration(costs.milliseconds), "since the request"));
  return element(
    "div",
    {},
    element("p", { class: "figures" }, ...figures),
    table(path, index, isTimed),
    isTimed ? details(costs) : null,
  );
}

function figure(value, noun) {
  return element("span", { class: "figure" }, element("b", {}, String(value)), ` ${noun}`);
}

function table(path, index, isTimed) {
  const most = Math.max(...path.rounds.map(({ costs }) => costs.labels), 1);
  const longest = Math.max(...path.rounds.map(({ costs }) => costs.milliseconds ?? 0), 1);
  const rows = listsOf(path)
    .slice(0, index + 1)
   .map(({ costs }, i) => {
    const before = i > 0 ? path.rounds[i - 1].costs : { labels: 0, milliseconds: 0 };
    return element(
      "tr",
      {},
      element("th", { scope: "row" }, roundName(path, i)),
      bar(String(costs.labels), before.labels / most, costs.labels / most),
      isTimed ? bar(duration(costs.milliseconds), before.milliseconds / longest, costs.milliseconds / longest) : null,
    );
  });
  return element(
    "table",
    { class: "costs" },
    element(
      "thead",
      {},
      element(
        "tr",
        {},
        ...["after", "labels so far", ...(isTimed ? ["time so far"] : [])].map((name) =>
          element("th", { scope: "col" }, name),
        ),
      ),
    ),
    element("tbody", {}, ...rows),
  );
}

/** A number with a bar: pale up to the round before, strong for what this round added. */
function bar(words, from, to) {
  return element(
    "td",
    {},
    element("span", {}, words),
    element("span", { class: "added", "aria-hidden": "true", "--from": from, "--to": to }),
  );
}

function details({ labels, scored, waited_ms: waited, label_ms: labelling }) {
  const kept = labels - scored;
  const words = [`${duration(labelling)} of it for labels`];
  if (waited >= 1) words.push(`${duration(waited)} waiting`);
  if (kept > 0) words.push(`${counted(kept, "label")} from the score cache`);
  return element("p", { class: "quiet" }, `${words.join("; ")}.`);
}
