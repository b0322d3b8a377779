// The map: the query among its candidates in two dimensions, as the service projected them.

import { element, isStill, point, replace, shape } from "./dom.js";
import { decimal, range, share } from "./path.js";

const MARGIN = 26;
const RING = 4; // around a passage that is judged relevant
const NAME = 85; // the width of a query's name, and its distance
const ROUNDS_OF_PUSHING = 80;
let maps = 0;

/** The map of one search. The dot of a passage is kept from round to round, so that it moves. */
export class QueryMap {
  constructor() {
    this.dots = new Map();
    this.arrow = `arrow-${++maps}`;
    this.passages = shape("g");
    this.way = shape("g", { class: "way" });
    this.picture = shape("svg", { class: "map", role: "img" }, arrowHead(this.arrow), this.passages, this.way);
    this.caption = element("p", { class: "pointed-at quiet", "aria-hidden": "true" });
    this.node = element("div", {}, this.picture, this.caption);
    new ResizeObserver(() => this.path && !this.node.hidden && this.draw()).observe(this.node);
    this.picture.addEventListener("click", (event) => point(event.target.closest("[data-doc]")?.dataset.doc ?? null));
    this.picture.addEventListener("pointerover", (event) => this.tell(event.target.closest("[data-doc]")?.dataset.doc));
  }

  /** Show a round; the node is hidden where no vectors are known. */
  show(path, index) {
    Object.assign(this, { path, index });
    this.node.hidden = !path.rounds[index].map;
    this.tell(null);
    if (!this.node.hidden) this.draw();
  }

  draw() {
    const { map, candidates } = this.path.rounds[this.index];
    const width = this.node.clientWidth;
    if (!width) return;
    const height = Math.round(Math.min(Math.max(0.62 * width, 280), 440));
    this.picture.setAttribute("viewBox", `0 0 ${width} ${height}`);
    this.picture.setAttribute("aria-label", this.words());
    const ranked = new Map(candidates.map((candidate) => [candidate.docid, candidate]));
    const labels = range(candidates.map(({ label }) => label));
    const places = placed(map, width, height);
    const circles = Object.keys(map.candidates).map((docid) => {
      const candidate = ranked.get(docid);
      const ring = this.path.relevant.has(docid) ? RING : 0;
      return { docid, candidate, ring, radius: radiusOf(candidate, labels) + ring, ...places.candidates.get(docid) };
    });
    circles.sort((one, other) => (other.candidate?.rank ?? Infinity) - (one.candidate?.rank ?? Infinity) || 0);
    push(circles, places.queries, width, height);
    const before = this.dots;
    this.dots = new Map(circles.map((circle) => [circle.docid, this.dot(circle)]));
    replace(
      this.passages,
      [...this.dots.values()].map(({ node }) => node),
    );
    if (!isStill()) for (const [docid, { node, place }] of this.dots) slide(node, before.get(docid)?.place, place);
    replace(this.way, wayOf(places.queries, this.arrow, width));
  }

  /** A passage: its rank in a circle, larger the better its label; a small one for a passage that is not in the list. */
  dot({ docid, candidate, ring, radius, x, y }) {
    const { node } = this.dots.get(docid) ?? { node: shape("g", { "data-doc": docid }) };
    const place = `translate(${x.toFixed(1)}px, ${y.toFixed(1)}px)`;
    const isNew = this.index > 0 && candidate && candidate.rank_before === null;
    const kind = [
      "dot",
      candidate ? "listed" : "unlisted",
      candidate && candidate.label === null ? "unlabelled" : "",
      isNew ? "new" : "",
    ];
    node.setAttribute("class", kind.filter(Boolean).join(" "));
    node.style.transform = place;
    replace(
      node,
      ring ? shape("circle", { class: "ring", r: radius }) : null,
      shape("circle", { r: radius - ring }),
      candidate ? shape("text", { dy: ".35em" }, String(candidate.rank)) : null,
      shape("title", {}, this.about(docid)),
    );
    return { node, place };
  }

  about(docid) {
    const { title, words } = this.path.texts.get(docid) ?? { title: "", words: "" };
    const candidate = this.path.rounds[this.index].candidates.find((each) => each.docid === docid);
    const what = `${title} ${words}`.trim() || docid;
    return candidate ? `${candidate.rank}. ${what} (label ${decimal(candidate.label)})` : `${what} (not in this list)`;
  }

  tell(docid) {
    replace(this.caption, docid ? this.about(docid) : "Point at a circle to read its passage.");
  }

  /** The map in a sentence, for those who do not see it. */
  words() {
    const { map, cosine, t } = this.path.rounds[this.index];
    const moved =
      t === 0 || cosine === null
        ? "The query has not moved."
        : `The query has moved ${t === 1 ? "once" : `${t} times`}; its cosine to the first vector is ${cosine.toFixed(3)}.`;
    return `Map of the query among ${Object.keys(map.candidates).length} passages. ${moved} The list has the same passages with their similarities.`;
  }
}

/** Places in the picture. Each axis is drawn larger near the query than far from it, so that the points use the picture. */
function placed({ queries, candidates }, width, height) {
  const points = [...queries, ...Object.values(candidates)];
  const [left, up] = [0, 1].map((axis) =>
    stretched(
      points.map((each) => each[axis]),
      queries.at(-1)[axis],
    ),
  );
  const place = ([x, y]) => ({
    x: MARGIN + left(x) * (width - 2 * MARGIN),
    y: MARGIN + (1 - up(y)) * (height - 2 * MARGIN),
  });
  return {
    queries: queries.map(place),
    candidates: new Map(Object.entries(candidates).map(([docid, each]) => [docid, place(each)])),
  };
}

/** From a coordinate to [0, 1]: even near the centre, logarithmic beyond the median distance from it. */
function stretched(values, centre) {
  const distances = values.map((value) => Math.abs(value - centre)).sort((one, other) => one - other);
  const unit = distances[Math.floor(distances.length / 2)] || 1;
  const scaled = (value) => Math.asinh((value - centre) / unit);
  const ends = range(values.map(scaled));
  return (value) => share(scaled(value), ends);
}

/** Let a dot move to its place; one that stays, or is new, does not. */
function slide(node, before, now) {
  if (before !== undefined && before !== now)
    node.animate([{ transform: before }, { transform: now }], { duration: 700, easing: "cubic-bezier(.2, .7, .2, 1)" });
}

function radiusOf(candidate, labels) {
  if (!candidate) return 4;
  return candidate.label === null ? 9 : 9 + 6 * share(candidate.label, labels);
}

/** Push circles that cover each other, or a query, apart; the same circles always end in the same places. */
function push(circles, queries, width, height) {
  const fixed = queries.map((query) => ({ ...query, radius: 9, isFixed: true }));
  const all = [...circles, ...fixed];
  for (let turn = 0; turn < ROUNDS_OF_PUSHING; turn++) {
    let isDone = true;
    for (let i = 0; i < circles.length; i++)
      for (let j = i + 1; j < all.length; j++) isDone = !pushedApart(all[i], all[j], i + j) && isDone;
    for (const circle of circles) {
      circle.x = Math.min(Math.max(circle.x, circle.radius + 5), width - circle.radius - 5);
      circle.y = Math.min(Math.max(circle.y, circle.radius + 5), height - circle.radius - 5);
    }
    if (isDone) return;
  }
}

function pushedApart(one, other, turn) {
  const least = one.radius + other.radius + 2;
  let [dx, dy] = [other.x - one.x, other.y - one.y];
  let distance = Math.hypot(dx, dy);
  if (distance >= least) return false;
  if (distance < 0.01) [dx, dy, distance] = [Math.cos(turn), Math.sin(turn), 1]; // the same place: any direction
  const step = (least - Math.min(distance, least - 0.5)) / distance / (other.isFixed ? 1 : 2);
  one.x -= dx * step;
  one.y -= dy * step;
  if (!other.isFixed) {
    other.x += dx * step;
    other.y += dy * step;
  }
  return true;
}

/** The query's way: a line from vector to vector, the first and the present one with a name. */
function wayOf(queries, arrow, width) {
  const parts = [];
  for (let t = 1; t < queries.length; t++) {
    const [from, to] = [queries[t - 1], queries[t]];
    const hasHead = Math.hypot(to.x - from.x, to.y - from.y) > 28; // a shorter line has no room for it
    const head = hasHead ? `url(#${arrow})` : null;
    parts.push(shape("line", { x1: from.x, y1: from.y, x2: to.x, y2: to.y, "marker-end": head }));
  }
  queries.forEach(({ x, y }, t) => {
    const isEnd = t === queries.length - 1;
    parts.push(
      shape("rect", {
        x: -5,
        y: -5,
        width: 10,
        height: 10,
        class: isEnd ? "now" : "",
        transform: `translate(${x} ${y}) rotate(45)`,
      }),
    );
    // The names stand on the sides that the way does not take.
    if (t === 0 && !isEnd) parts.push(named("first query", x, y, -1, x));
    if (isEnd) parts.push(named(t > 0 ? "query now" : "query", x, y, 1, width - x));
  });
  return parts;
}

/** A name to the left (side -1) or right (1) of a place, or above it where the picture has too little room there. */
function named(words, x, y, side, room) {
  const isAbove = room < NAME;
  const anchor = side < 0 === isAbove ? "start" : "end";
  return shape("text", { x: x + (isAbove ? 5 : 10) * side, y: y + (isAbove ? -12 : 4), "text-anchor": anchor }, words);
}

function arrowHead(id) {
  const head = shape("marker", {
    id,
    viewBox: "0 0 8 8",
    refX: 13,
    refY: 4,
    markerWidth: 7,
    markerHeight: 7,
    orient: "auto",
  });
  head.append(shape("path", { d: "M0 0L8 4L0 8z" }));
  return shape("defs", {}, head);
}
