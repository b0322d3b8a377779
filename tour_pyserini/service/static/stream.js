// Calling the service: a search as a sequence of events, and JSON.

/** An answer of the service that is no success, in one sentence. */
export class Refusal extends Error {
  constructor(status, message) {
    super(message);
    this.status = status;
  }
}

/** The events {event, data} of a search, as they arrive. Ends with `answer` or `error`, or throws a Refusal. */
export async function* eventsOf(address, { signal, key }) {
  const answer = await fetched(address, { signal, key, accept: "text/event-stream" });
  const reader = answer.body.pipeThrough(new TextDecoderStream()).getReader();
  let rest = "";
  for (;;) {
    const { done, value } = await reader.read();
    if (done) return;
    const blocks = (rest + value).split(/\r\n\r\n|\n\n|\r\r/);
    rest = blocks.pop();
    for (const block of blocks) {
      const event = parsed(block);
      if (event !== null) yield event;
    }
  }
}

/** What the service answers, as JSON: to GET, or to POST where there is something to send. */
export async function jsonOf(address, { key, sent } = {}) {
  return (await fetched(address, { key, sent, accept: "application/json" })).json();
}

async function fetched(address, { signal, key, sent, accept }) {
  const headers = { Accept: accept };
  if (key) headers.Authorization = `Bearer ${key}`;
  if (sent) headers["Content-Type"] = "application/json";
  let answer;
  try {
    answer = await fetch(address, { signal, headers, method: sent ? "POST" : "GET", body: sent && JSON.stringify(sent) });
  } catch (error) {
    if (error.name === "AbortError") throw error;
    throw new Refusal(0, "The service cannot be reached. Check that it runs, then search again.");
  }
  if (!answer.ok) throw new Refusal(answer.status, await sentenceOf(answer));
  return answer;
}

/** Why there is no answer: the service's own sentence, or what the status means. */
async function sentenceOf(answer) {
  const wait = answer.headers.get("Retry-After");
  const { detail } = await answer.json().catch(() => ({}));
  const sentence = typeof detail === "string" ? detail : `The service answered with the status ${answer.status}.`;
  return answer.status === 429 && wait ? `${sentence} Try again in ${wait} s.` : sentence;
}

/** The event of a block of lines; null for a comment. */
function parsed(block) {
  let event = "message";
  const data = [];
  for (const line of block.split(/\r\n|\n|\r/)) {
    const [, field, value] = /^([^:]*):? ?(.*)$/s.exec(line);
    if (field === "event") event = value;
    if (field === "data") data.push(value);
  }
  return data.length ? { event, data: JSON.parse(data.join("\n")) } : null;
}
