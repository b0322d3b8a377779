// One search as the page knows it, and what a reader asks of it: what is new, what moved, and why.
// Rounds, lists, maps and costs are messages of the service (messages.py), as they come.

/** A search that has not begun. `relevant` are docids judged relevant, where that is known. */
export function newPath(query, { method = "", relevant = [] } = {}) {
  return {
    query,
    method: presetOf(method) ?? method,
    preset: presetOf(method),
    relevant: new Set(relevant),
    judged: new Map(), // from docid to grade, as the readers of this page gave it
    rounds: [],
    texts: new Map(),
    settings: null,
    stop: null,
    error: null,
  };
}

/** The preset that is chosen in the place of a method, or null. */
export function presetOf(method) {
  return method.startsWith("preset:") ? method.slice("preset:".length) : null;
}

/** Add an event of a search to its path. */
export function take(path, { event, data }) {
  if (event === "settings") Object.assign(path, { settings: data, method: path.preset ?? data.method });
  if (event === "round") {
    path.rounds.push(data);
    for (const { docid, title, words, judged } of data.candidates) {
      path.texts.set(docid, { title, words });
      if (typeof judged === "number" && !path.judged.has(docid)) path.judged.set(docid, judged);
    }
    path.stop = data.stop ?? path.stop;
  }
  if (event === "answer") {
    path.stop = data.stop;
    path.nothing = data.nothing;
    path.costs = data.costs;
    addWholeChange(path);
  }
  if (event === "error") path.error = data.detail;
}

/** Add the last list once more, as a change from the first one; two lists differ by one round, which tells it. */
export function addWholeChange({ rounds }) {
  if (rounds.length < 3) return;
  const last = rounds.at(-1);
  const first = new Map(rounds[0].candidates.map((candidate) => [candidate.docid, candidate]));
  const candidates = last.candidates.map((candidate) => {
    const { rank = null, similarity = null } = first.get(candidate.docid) ?? {};
    const bought = candidate.label !== null;
    return { ...candidate, bought, isWhole: true, rank_before: rank, similarity_before: similarity };
  });
  const note = "The last list, and how it differs from the first.";
  rounds.push({ ...last, name: "First to last", note, isWhole: true, candidates });
}

/** The lists of a path, without the whole change at its end. */
export function listsOf({ rounds }) {
  return rounds.filter(({ isWhole }) => !isWhole);
}

/** Whether no more events come. */
export function isOver(path) {
  return path.error !== null || path.costs !== undefined || path.isRecorded === true;
}

/** What a round is called. */
export function roundName(path, index) {
  const { name, number } = path.rounds[index];
  return name ?? (number === 0 ? "First retrieval" : `Round ${number}`);
}

/** How a candidate moved since the round before, as a sign and in words; null in the first list. */
export function movement(candidate, index) {
  if (index === 0) return null;
  if (candidate.rank_before === null) return { kind: "new", sign: "new", words: candidate.isWhole ? "not in the first list" : "not in the list before" };
  const ranks = candidate.rank_before - candidate.rank;
  if (ranks === 0) return { kind: "same", sign: "=", words: candidate.isWhole ? "same rank as in the first list" : "same rank as before" };
  const words = `${ranks > 0 ? "up" : "down"} from rank ${candidate.rank_before}`;
  return { kind: ranks > 0 ? "rose" : "fell", sign: `${ranks > 0 ? "↑" : "↓"}${Math.abs(ranks)}`, words };
}

/** Why a candidate moved, as far as the round tells; null where it did not. */
export function reason(candidate, index) {
  const kind = movement(candidate, index)?.kind ?? "same";
  if (kind === "same") return null;
  const { similarity, similarity_before: before } = candidate;
  const isKnown = similarity !== null && before !== null;
  const change = isKnown ? similarity - before : 0;
  const isClear = Math.abs(change) > 0.001 * Math.abs(before);
  const causes = [];
  if (candidate.bought) causes.push(candidate.isWhole ? "labelled" : "labelled in this round");
  if (isClear && kind !== "fell" && change > 0) causes.push("the query moved towards it");
  if (isClear && kind === "fell" && change < 0) causes.push("the query moved away from it");
  if (causes.length === 0 && isKnown && kind !== "new") causes.push(kind === "rose" ? "others fell" : "others rose");
  return causes.join("; ") || null;
}

/** Where a candidate was at the beginning, in words; null where the round before tells it already. */
export function beginning(path, { docid, rank_before: before, isWhole }, index) {
  if (index < 2 || isWhole) return null;
  const first = path.rounds[0].candidates.find((candidate) => candidate.docid === docid);
  if (first) return `Rank ${first.rank} in the first list.`;
  return before === null ? null : "Not in the first list.";
}

/** A round in one sentence, for the status line. */
export function summary(path, index) {
  const { candidates, costs } = path.rounds[index];
  const count = (kind) => candidates.filter((candidate) => movement(candidate, index)?.kind === kind).length;
  const what = index === 0 ? counted(candidates.length, "passage") : `${count("new")} new, ${count("rose")} rose`;
  return `${roundName(path, index)}: ${what}; ${costWords(costs)}.`;
}

/** The cost so far in words. */
export function costWords(costs) {
  const words = [counted(costs.labels, "label"), counted(costs.updates, "update")];
  if (costs.milliseconds !== undefined) words.push(duration(costs.milliseconds));
  return words.join(", ");
}

/** The smallest and the largest of the numbers among some values; [0, 1] where there is none. */
export function range(values) {
  const known = values.filter((value) => value !== null && value !== undefined);
  return known.length ? [Math.min(...known), Math.max(...known)] : [0, 1];
}

/** Where a value is in a range, from 0 to 1. */
export function share(value, [low, high]) {
  return high > low ? (value - low) / (high - low) : 0.5;
}

/** A score or similarity for reading. */
export function decimal(value) {
  if (value === null || value === undefined) return "–";
  return (Math.abs(value) < 2 ? value.toFixed(3) : value.toFixed(2)).replace("-", "−");
}

/** Milliseconds as a reader says them. */
export function duration(milliseconds) {
  return milliseconds < 1000 ? `${Math.round(milliseconds)} ms` : `${(milliseconds / 1000).toFixed(2)} s`;
}

/** A number with its noun. */
export function counted(count, noun) {
  return `${count} ${noun}${count === 1 ? "" : "s"}`;
}
