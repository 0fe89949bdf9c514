/* The answer above the results, written by the model of the chats: sentences whose citations the server has checked.
   Without this file the best passage stands there. An answer is asked for once for each question of this page. */

import { eventsOf } from "./chat.js";

const one = (selector, root = document) => root.querySelector(selector);
const answers = new Map(); // the events of complete answers, by the body of the request
let asked; // the request that is on its way

function make(tag, className, text = "") {
  const element = document.createElement(tag);
  element.className = className;
  element.textContent = text;
  return element;
}

/** The day as the server's pages write it. */
function dayOf(moment) {
  const language = document.documentElement.lang;
  return new Date(moment).toLocaleDateString(language === "en" ? "en-GB" : language, { dateStyle: "medium" });
}

class Answer {
  constructor(section) {
    this.section = section;
    this.box = one("[data-ask]", section);
    this.status = one("[data-ask-status]", section);
    this.text = make("p", "answer-text");
    this.text.dir = "auto";
    this.cited = make("ol", "answer-cited");
    this.evidence = new Map();
  }

  take({ name, data }) {
    if (name === "evidence") this.begin(data);
    else if (name === "sentence") this.say(data);
    else if (name === "done") this.end(data);
    else if (name === "error") this.status.textContent = data.detail;
  }

  begin({ results, model, max_tokens: most }) {
    for (const turn of results) this.evidence.set(turn.number, turn);
    one("[data-ask-button]", this.section).hidden = true;
    const values = { model, count: results.length, most: most.toLocaleString() };
    this.status.textContent = word("{model} reads {count} places, for at most {most} tokens.", values);
  }

  /** Shows a sentence with its numbers, and each place that it cites once, with the words that it quotes. */
  say({ text, citations }) {
    if (!this.text.isConnected) {
      for (const part of this.section.querySelectorAll("[data-best]")) part.hidden = true;
      this.box.prepend(this.text, this.cited);
    }
    this.text.append(this.text.textContent ? " " : "", text);
    const numbers = document.createElement("sup");
    for (const citation of citations) {
      numbers.append(this.link(citation, String(citation.number)));
      this.quote(citation);
    }
    this.text.append(numbers);
    htmx.process(this.box);
  }

  link({ url, quote, number }, text) {
    const link = make("a", "", text);
    const { title, place } = this.evidence.get(number);
    Object.assign(link, { href: url, title: quote });
    if (text === String(number)) link.setAttribute("aria-label", `${number}: ${title}, ${place}`);
    for (const [name, value] of Object.entries({ "hx-boost": "true", "hx-target": "#main", "hx-swap": "innerHTML" }))
      link.setAttribute(name, value);
    return link;
  }

  quote(citation) {
    let item = one(`[data-number="${citation.number}"]`, this.cited);
    if (!item) {
      const { title, place, created_at: moment, overturned } = this.evidence.get(citation.number);
      item = make("li", "");
      item.dataset.number = item.value = citation.number;
      item.append(this.link(citation, `${title || word("Untitled")}, ${place}`));
      const day = make("time", "", dayOf(moment));
      day.dateTime = moment;
      item.append(" · ", day);
      if (overturned) {
        const later = make("a", "tag warning", word("A later turn says otherwise"));
        Object.assign(later, { href: overturned.url, title: overturned.quote });
        item.append(" ", later);
      }
      this.cited.append(item);
    }
    const words = make("q", "", citation.quote);
    words.dir = "auto";
    item.append(words);
  }

  end({ status, tokens }) {
    const cost = tokens ? word("{count} tokens", { count: tokens.toLocaleString() }) : "";
    const sentences = {
      answered: word("Each sentence quotes the places that it names."),
      unsupported: word("What the model answered quotes nothing that is stored, so it is not shown."),
      nothing_answers: this.box.dataset.silence,
    };
    this.status.textContent = [sentences[status] ?? "", cost].filter(Boolean).join(" · ");
    if (status === "nothing_answers") one("[data-nearest]", this.section).hidden = false;
  }
}

async function ask(section) {
  const body = one("[data-ask]", section).dataset.ask;
  const answer = new Answer(section);
  asked?.abort();
  const { signal } = (asked = new AbortController());
  const events = [];
  try {
    const headers = { "Content-Type": "application/json", "X-CSRFToken": one("[name=csrfmiddlewaretoken]").value };
    const response = await fetch("/api/v1/ask", { method: "POST", body, headers, signal });
    if (!response.ok) {
      answer.status.textContent = reasonIn(await response.text()) ?? word("The server answered {status}.", { status: response.status });
      return;
    }
    for await (const event of eventsOf(response)) {
      events.push(event);
      answer.take(event);
      if (event.name === "done") answers.set(body, events);
    }
  } catch (error) {
    if (error.name !== "AbortError") answer.status.textContent = word("The server does not answer. Is it running?");
  }
}

/** Shows the answer of this page's question: an answer that is shown already, what Enter asked for, or a button that asks. */
function show() {
  asked?.abort();
  const box = one("#results [data-ask]");
  if (!box) return;
  const section = box.closest(".answer"), events = answers.get(box.dataset.ask);
  if (events) {
    const answer = new Answer(section);
    for (const event of events) answer.take(event);
  } else if (box.hasAttribute("data-ask-now")) ask(section);
  else one("[data-ask-button]", section).hidden = false;
}

document.addEventListener("click", (event) => {
  const button = event.target.closest("[data-ask-button]");
  if (button) ask(button.closest(".answer"));
});
document.addEventListener("htmx:afterSwap", ({ detail }) => {
  if (detail.target?.id === "results") show();
});
show();
