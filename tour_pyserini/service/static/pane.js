// One search on the page: its rounds to choose from, the list, the map, the costs, and all rounds side by side.

import { columnsOf } from "./columns.js";
import { costsOf } from "./costs.js";
import { element, followPointer, replace } from "./dom.js";
import { PassageList } from "./list.js";
import { QueryMap } from "./map.js";
import { isOver, roundName } from "./path.js";

const PACE = 1600; // milliseconds that a round is shown when the path is played again
let panes = 0;

/** The view of one path. It follows new rounds until the reader chooses one. */
export class Pane {
  /** `read(docid)` gives a whole passage; `judge(docid, grade)` keeps a judgement, null where that is not done. */
  constructor(path, read, judge = null) {
    this.path = path;
    this.index = -1;
    this.follows = true;
    this.other = null;
    this.changed = () => {};
    this.id = `pane-${++panes}`;
    this.list = new PassageList(read, judge);
    this.map = new QueryMap();
    this.name = element("h2", { id: `${this.id}-name` });
    this.state = element("p", { class: "quiet" });
    this.steps = element("fieldset", { class: "steps", change: (event) => this.choose(Number(event.target.value)) });
    this.again = element("button", { type: "button", class: "again", click: () => this.play() }, "Play again");
    this.note = element("p", { class: "quiet" });
    this.costs = element("div");
    this.columns = element("div");
    this.maps = part("Map", element("p", { class: "quiet" }, MAP_WORDS), this.map.node);
    this.content = element(
      "div",
      { class: "content", hidden: true },
      element(
        "div",
        { class: "now" },
        part("List", this.note, this.list.node),
        element("div", { class: "side" }, this.maps, part("Cost so far", this.costs)),
      ),
      part("Rounds side by side", this.columns),
    );
    this.node = element(
      "section",
      { class: "pane", "aria-labelledby": `${this.id}-name` },
      element(
        "div",
        { class: "pane-head" },
        this.name,
        this.state,
        element("div", { class: "chooser" }, this.steps, this.again),
      ),
      this.content,
    );
    followPointer(this.node);
    this.update();
  }

  /** Compare each passage with its rank in the pane beside this one; `changed` is called when another list is shown. */
  beside(other, changed) {
    Object.assign(this, { other, changed });
  }

  /** Show what has arrived since the last call. */
  update() {
    const { path } = this;
    replace(this.name, path.method || (path.isRecorded ? "The query's path" : "Search"));
    replace(this.state, stateOf(path));
    this.node.setAttribute("aria-busy", String(!isOver(path)));
    this.content.hidden = path.rounds.length === 0;
    this.steps.hidden = path.rounds.length < 2;
    this.again.hidden = !isOver(path) || path.rounds.length < 2;
    this.addSteps();
    const last = path.rounds.length - 1;
    if (last >= 0 && (this.follows || this.index < 0) && this.index !== last) this.show(last);
    else if (this.index >= 0) this.show(this.index);
  }

  /** The reader chooses a round; the last one is followed again. */
  choose(index) {
    clearInterval(this.timer);
    this.follows = index === this.path.rounds.length - 1;
    this.show(index);
  }

  /** Show all rounds one after the other. */
  play() {
    clearInterval(this.timer);
    this.follows = false;
    this.show(0);
    this.timer = setInterval(() => {
      this.show(this.index + 1);
      if (this.index === this.path.rounds.length - 1) this.choose(this.index);
    }, PACE);
  }

  /** Show the same round again, when the other pane has changed. */
  refresh() {
    if (this.index >= 0) this.list.show(this.path, this.index, this.others());
  }

  show(index) {
    this.index = index;
    const chosen = this.steps.querySelector(`input[value="${index}"]`);
    if (chosen) chosen.checked = true;
    replace(this.note, this.path.rounds[index].note ?? "");
    this.list.show(this.path, index, this.others());
    this.maps.hidden = !this.path.rounds[index].map;
    this.map.show(this.path, index);
    replace(this.costs, costsOf(this.path, index));
    const scrolled = this.columns.firstElementChild?.scrollLeft ?? 0;
    if (this.drawn !== this.path.rounds.length) {
      this.drawn = this.path.rounds.length;
      replace(this.columns, columnsOf(this.path));
      this.columns.firstElementChild.scrollLeft = scrolled;
    }
    this.changed();
  }

  others() {
    if (this.other === null || this.other.index < 0) return null;
    const { path, index } = this.other;
    return { name: path.method, ranks: new Map(path.rounds[index].candidates.map(({ docid, rank }) => [docid, rank])) };
  }

  addSteps() {
    if (!this.steps.firstChild) this.steps.append(element("legend", {}, "Show"));
    for (let index = this.steps.querySelectorAll("input").length; index < this.path.rounds.length; index++)
      this.steps.append(
        element(
          "label",
          {},
          element("input", { type: "radio", name: `${this.id}-round`, value: index }),
          element("span", {}, roundName(this.path, index)),
        ),
      );
  }
}

const MAP_WORDS =
  "To the right is where the query went. The numbers are ranks; the larger the circle, the better the label.";

function part(name, ...children) {
  return element(
    "section",
    { class: `part ${name.split(" ")[0].toLowerCase()}-part` },
    element("h3", {}, name),
    ...children,
  );
}

function stateOf({ error, stop, nothing, rounds, settings, isRecorded }) {
  if (error !== null) return rounds.length ? "Ended early; this is what had arrived." : "No list.";
  const words = stop ? [nothing ? `Nothing found: ${nothing}.` : `Stopped: ${stop}.`] : isRecorded ? [] : ["Searching …"];
  if (settings?.documents) words.push(`${settings.documents.toLocaleString("en")} documents.`);
  return words.join(" ");
}
