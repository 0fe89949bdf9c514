/* Reading a conversation: its title edited in place, copying links, messages and code, the outline next to it, and the
   words that were looked for marked. Without this file titles are changed in the menu and the outline is a page. */
(() => {
  "use strict";

  const one = (selector, root = document) => root.querySelector(selector);
  const all = (selector, root = document) => [...root.querySelectorAll(selector)];

  function editTitle(isEdited, typed = one("[data-title]").title) {
    const form = one("[data-title-form]");
    form.hidden = !isEdited;
    one("[data-title]").hidden = isEdited;
    one("[data-edit-title]").hidden = isEdited;
    if (isEdited) {
      form.elements.title.value = typed;
      form.elements.title.select();
    } else {
      one("[data-edit-title]").focus();
    }
  }

  async function saveTitle(form) {
    const title = form.elements.title.value.trim(), number = page().dataset.conversationPage;
    const body = new FormData(form), headers = { "HX-Request": "true" };
    const response = await fetch(form.action, { method: "POST", body, headers, redirect: "manual" });
    if (response.headers.has("HX-Redirect")) return location.assign(response.headers.get("HX-Redirect"));
    if (response.type !== "opaqueredirect") return say(reasonIn(await response.text()) ?? word("The title could not be saved."));
    for (const item of all(`.item[data-conversation="${number}"]:not(.hit) .item-title`)) item.textContent = title;
    if (!form.isConnected) return; // another page is open by now
    const head = one("[data-title]");
    head.textContent = head.title = title;
    document.title = `${title} · convmemory`;
    editTitle(false);
  }

  async function copy(text, done) {
    try {
      await navigator.clipboard.writeText(await text);
      say(done);
    } catch {
      say(word("This browser lets nothing be copied here: it wants HTTPS."));
    }
  }

  const textOf = async (address) => (await fetch(address)).text();

  /** A button in each block of code; it cannot be in the HTML, which is the transcript's own. */
  function addCodeButtons() {
    for (const block of all(".code:not(:has(.copy-code))")) {
      const button = document.createElement("button");
      button.type = "button";
      button.className = "copy-code";
      button.textContent = word("Copy");
      button.setAttribute("aria-label", word("Copy this code"));
      block.append(button);
    }
  }

  const panel = () => one(".outline-panel");
  const field = () => one("[data-find]", panel() ?? document);
  const KEY = "convmemory.outline";
  let isReopening = false;
  let origin; // where the page was before words were looked for, to go back to with Escape

  function remember(isOpen) {
    try {
      localStorage.setItem(KEY, (document.documentElement.dataset.outline = isOpen ? "open" : ""));
    } catch {
      // no storage: it is closed on the next page
    }
  }

  /** Whether the panel is shown with the page: where it was left open, and on a wide screen until it is closed once. */
  function isStanding() {
    const state = document.documentElement.dataset.outline;
    const isContents = state === "unset" && "contents" in page().dataset && matchMedia("(min-width: 1600px)").matches;
    return isContents || (state === "open" && hasRoom());
  }

  /** Changes how wide the messages are, and leaves the one that is read where it stands. */
  function keepingPlace(change) {
    const head = one(".page-head").getBoundingClientRect().bottom;
    const isInView = ({ top }) => top >= head - 1 && top < innerHeight;
    const read =
      all(".message").find((message) => isInView(message.getBoundingClientRect())) ??
      all(".message").find((message) => message.getBoundingClientRect().bottom > head);
    const before = read?.getBoundingClientRect().top;
    change();
    if (read) pane().scrollTop += read.getBoundingClientRect().top - before;
  }

  function closeOutline() {
    keepingPlace(() => {
      panel().hidden = true;
      remember(false);
    });
    origin = null;
    CSS.highlights?.delete("found-words");
    one("[data-outline-link]").focus({ preventScroll: true });
  }

  /** Shows the panel; its link loads what is in it. */
  function openOutline() {
    keepingPlace(() => {
      panel().hidden = false;
      if (!isReopening) remember(true);
    });
    field().value = "";
    if (!isReopening) field().focus({ preventScroll: true });
  }

  /** Puts the caret where words of the page are looked for. */
  function find() {
    if (panel()?.hidden) one("[data-outline-link]").click();
    else field()?.select();
  }

  document.addEventListener("convmemory:find", find);

  /** Fills the panel next to the page. */
  function reopenOutline() {
    isReopening = true; // the caret stays where it is: the keys of the page go on working
    if (panel()?.hidden && !rows().length && isStanding()) one("[data-outline-link]").click();
    isReopening = false;
  }

  const hasRoom = () => matchMedia("(min-width: 1280px)").matches;
  const finding = () => one(".outline-panel:not([hidden]) [data-finding]");
  const rows = () => all("[data-outline-turn]", panel() ?? document);

  /** Marks one row as the one that is being read. */
  function markRow(row) {
    for (const other of rows()) other.removeAttribute("aria-current");
    row?.setAttribute("aria-current", "true");
    row?.scrollIntoView({ block: "nearest" });
  }

  function markTurn() {
    const now = one("[data-turn-now]")?.dataset.turnNow;
    if (rows().length) markRow(rows().find((row) => row.dataset.outlineTurn === now));
  }

  /** Says which of the turns with the words is shown, as "151 / 300". */
  function showCount(place) {
    const counter = one("[data-find-steps]", panel());
    counter.hidden = !finding();
    panel().classList.toggle("is-finding", Boolean(finding()));
    one("[data-find-count]", counter).textContent = finding() ? `${place} / ${finding().dataset.count}` : "";
  }

  const steps = new Set(); // addresses that steps have asked for, without the turn behind the sign
  let latest = ""; // the last of them
  const bare = (address) => new URL(address, location).href.split("#")[0];

  /** Loads the page at an address, in the place of the present one. */
  function load(address) {
    latest = bare(address);
    steps.add(latest);
    history.replaceState(history.state, "", address);
    return htmx.ajax("GET", address, { target: "#main", swap: "innerHTML" });
  }

  /** Shows a turn with the words, at the words. */
  function goTo(row) {
    const turn = turnInView();
    origin ??= { address: location.href, turn: turn?.id, top: turn?.getBoundingClientRect().top };
    markRow(row);
    showCount(row.dataset.place);
    one("[name=turn]", panel()).value = row.dataset.outlineTurn;
    if (row.href !== location.href) load(row.href);
  }

  /** Goes to the next turn with the words, or the one before; after the last comes the first. */
  function stepFound(by) {
    const found = rows();
    const next = found[found.findIndex((row) => row.ariaCurrent === "true") + by];
    const edge = one(`[data-find-edge="${by}"]`, panel());
    if (next) goTo(next);
    else if (edge) edge.click();
    else if (found.length) goTo(found.at(by > 0 ? 0 : -1));
  }

  /** Enter in the field: what stands in it is looked for, or the next turn that has it is shown. */
  function findOrStep(by) {
    if (finding()?.dataset.finding === field().value.trim()) stepFound(by);
    else htmx.trigger(one("[data-find-form]", panel()), "find-now");
  }

  /** Closes the panel, and shows again what was read before words were looked for. */
  async function goBack() {
    const { address, turn, top } = origin ?? {};
    closeOutline();
    if (!address || address === location.href) return;
    await load(address);
    const read = turn && document.getElementById(turn);
    if (read) pane().scrollTop += read.getBoundingClientRect().top - top;
  }

  document.addEventListener("htmx:configRequest", (event) => {
    const { elt, parameters, triggeringEvent } = event.detail;
    if (elt?.matches("[data-outline-link]")) parameters.set("turn", one("[data-turn-now]")?.dataset.turnNow || 0);
    const isLooked = elt?.matches("[data-find-form]") && triggeringEvent?.type === "input";
    if (isLooked && finding()?.dataset.finding === field().value.trim()) event.preventDefault();
  });

  let isRead = false; // scrolled by hand: scripts that scroll to a target leave the address alone
  let waiting;
  let opened; // the address at which the page was opened, and its turn

  const page = () => one("[data-conversation-page]");
  const pane = () => (getComputedStyle(one("#main")).overflowY === "auto" ? one("#main") : document.scrollingElement);

  /** The turn at the top of the pane; at its end the last one. */
  function turnInView() {
    const turns = all("[data-messages] [id^='turn-']");
    const { scrollTop, clientHeight, scrollHeight } = pane();
    if (scrollTop + clientHeight > scrollHeight - 4 && !one("[data-later]")) return turns.at(-1);
    const line = one(".page-head").getBoundingClientRect().bottom + 32;
    return turns.findLast((turn) => turn.getBoundingClientRect().top <= line) ?? turns[0];
  }

  function addressOfTurn(turn) {
    if (String(turn) === opened.turn) return opened.address;
    const address = new URL(opened.address);
    for (const name of ["m", "part", "from", "to", "earlier", "later"]) address.searchParams.delete(name);
    address.searchParams.set("turn", turn);
    address.hash = `turn-${turn}`;
    return address.href;
  }

  /** Says in the head, in the outline and in the address which turn is being read. */
  function showTurn(turn) {
    const nav = one(".turns", page());
    const now = nav && one("[data-turn-now]", nav);
    if (!now || now.dataset.turnNow === String(turn)) return;
    now.dataset.turnNow = turn;
    now.textContent = turn + 1; // people count from one, addresses from zero
    nav.hidden = false;
    for (const link of all("a", nav)) {
      const to = turn + (link.rel === "next" ? 1 : -1), fresh = link.cloneNode(true);
      fresh.href = addressOfTurn(to);
      fresh.hidden = to < 0 || to >= Number(nav.dataset.turns);
      link.replaceWith(fresh);
      htmx.process(fresh); // htmx keeps the address that a link had at first
    }
    if (!finding()) markTurn();
    if (one("[name=turn]", panel())) one("[name=turn]", panel()).value = turn;
    history.replaceState(history.state, "", addressOfTurn(turn));
  }

  function follow() {
    const turn = isRead && page() && turnInView();
    if (turn) origin = null;
    if (turn) showTurn(Number(turn.dataset.turn));
  }

  const SCROLL_KEYS = ["PageUp", "PageDown", "Home", "End", "ArrowUp", "ArrowDown", " "];

  for (const type of ["wheel", "touchmove", "keydown", "pointerdown"]) {
    addEventListener(type, ({ target, key }) => {
      const isScrollBar = target === pane(); // pressed outside of its content
      if (type === "keydown") isRead ||= SCROLL_KEYS.includes(key) && !target.closest?.("input, textarea, select, #list");
      else if (type === "pointerdown") isRead ||= isScrollBar;
      else isRead ||= Boolean(target.closest?.("#main"));
    }, { passive: true, capture: true });
  }

  addEventListener("scroll", ({ target }) => {
    if (target !== pane() && target !== document) return;
    clearTimeout(waiting);
    waiting = setTimeout(follow, 120);
  }, { passive: true, capture: true });

  function startReading() {
    isRead = false;
    opened = { address: location.href, turn: page()?.dataset.targetTurn };
  }

  /** A turn that is on the page is scrolled to; another one is loaded, by its link. */
  document.addEventListener("click", (event) => {
    const link = event.target.closest(".turns a");
    const turn = link && one(`#turn-${new URL(link.href).searchParams.get("turn")}`);
    if (!turn || event.ctrlKey || event.metaKey) return;
    event.preventDefault();
    event.stopImmediatePropagation();
    turn.scrollIntoView({ block: "start" });
    turn.focus({ preventScroll: true });
    showTurn(Number(turn.dataset.turn));
    clearTimeout(waiting);
    isRead = false; // the turn may be too near the end to lie on top
  }, true);

  /** Marks the words in the messages, which stay as they are: any text with them, as the server looks for them. */
  function markWords() {
    if (!globalThis.CSS?.highlights || !one("[data-messages]")) return;
    const words = finding()?.dataset.finding.toLowerCase().split(/\s+/) ?? [];
    const ranges = [];
    const walker = document.createTreeWalker(one("[data-messages]"), NodeFilter.SHOW_TEXT);
    for (let node = words.length && walker.nextNode(); node && ranges.length < 2000; node = walker.nextNode()) {
      const text = node.data.toLowerCase();
      for (const word of words) {
        for (let at = text.indexOf(word); at >= 0; at = text.indexOf(word, at + word.length)) {
          const range = new Range();
          range.setStart(node, Math.min(at, node.length));
          range.setEnd(node, Math.min(at + word.length, node.length));
          ranges.push(range);
        }
      }
    }
    CSS.highlights.set("found-words", new Highlight(...ranges));
  }

  document.addEventListener("click", (event) => {
    const found = (selector) => event.target.closest(selector);
    const edit = found("[data-edit-title]");
    edit?.closest("details.menu")?.removeAttribute("open");
    if (edit) return editTitle(true);
    if (found("[data-close-outline]")) return closeOutline();
    const step = found("[data-find-step]");
    if (step) return stepFound(Number(step.dataset.findStep));
    if (found("[data-all-questions]")) field().value = "";
    const row = found(".outline-panel [data-outline-turn]");
    if (row) {
      origin = null; // it is where the reader wants to be
      markRow(row);
      if (row.dataset.place) showCount(row.dataset.place);
      else if (!hasRoom()) panel().hidden = true;
    }
    const address = found("[data-copy-address]");
    if (address) return void copy(new URL(address.dataset.copyAddress, location.href).href, word("Link copied"));
    const code = found(".copy-code");
    if (code) return void copy(one("pre", code.parentElement).textContent, word("Code copied"));
    const text = found("[data-copy-text]");
    if (text && !event.ctrlKey && !event.metaKey) {
      event.preventDefault();
      copy(textOf(text.href), word("Message copied"));
    }
  });

  document.addEventListener("click", (event) => {
    const link = event.target.closest("[data-outline-link]");
    if (!link || event.ctrlKey || event.metaKey) return;
    if (panel().hidden) return openOutline();
    event.preventDefault();
    event.stopImmediatePropagation();
    closeOutline();
  }, true);

  document.addEventListener("submit", (event) => {
    if (!event.target.matches("[data-title-form]")) return;
    event.preventDefault();
    saveTitle(event.target);
  });

  document.addEventListener("keydown", (event) => {
    const active = document.activeElement ?? document.body;
    if (event.key === "Escape" && active.closest("[data-title-form]")) {
      editTitle(false);
      event.stopImmediatePropagation();
    } else if (event.key === "Escape" && (active.closest(".outline-panel") || (origin && active.closest("#main")))) {
      event.preventDefault(); // the field would be emptied
      goBack();
      event.stopImmediatePropagation();
    } else if (event.key === "Enter" && active === field() && panel() && !event.isComposing) {
      event.preventDefault();
      findOrStep(event.shiftKey ? -1 : 1);
    } else if ("JK".includes(event.key) && !event.ctrlKey && !event.metaKey && !event.altKey && page() &&
      !active.matches("input, textarea, select, [contenteditable]")) {
      const turn = one(".turns", page())?.hidden && turnInView(); // no turn is named yet
      if (turn) showTurn(Number(turn.dataset.turn));
      one(`.turns a[rel=${event.key === "J" ? "next" : "prev"}]:not([hidden])`)?.click();
    } else if (event.key === "t" && !event.ctrlKey && !event.metaKey && !event.altKey && panel() && one("#main:not([aria-busy])") &&
      !active.matches("input, textarea, select, [contenteditable]")) {
      event.preventDefault();
      one("[data-outline-link]").click();
    } else if (event.key === "f" && !event.ctrlKey && !event.metaKey && !event.altKey && one("#main:not([aria-busy]) [data-wants-find]") &&
      !active.matches("input, textarea, select, [contenteditable]")) {
      event.preventDefault();
      find();
    }
  }, true);

  document.addEventListener("convmemory:refilled", ({ target }) => {
    if (target.matches("[data-title-form] input")) editTitle(true, target.value);
  });

  /* A picture whose bytes were not kept leaves no hole. */
  document.addEventListener("error", (event) => {
    if (event.target.matches?.(".picture img")) event.target.closest(".picture").classList.add("is-missing");
  }, true);

  let isTyped = false; // the caret was in the field when another page came

  document.addEventListener("htmx:beforeSwap", ({ detail }) => {
    if (detail.target.id !== "main") return;
    const address = bare(detail.pathInfo?.requestPath ?? "");
    const isOvertaken = steps.has(address) && address !== latest && latest === bare(location.href);
    if (isOvertaken) detail.shouldSwap = false;
    isTyped = document.activeElement === field();
  });

  document.addEventListener("htmx:afterSwap", ({ detail: { target } }) => {
    addCodeButtons();
    markWords();
    if (isTyped && target?.id === "main") field()?.focus({ preventScroll: true });
    if (target?.matches(".outline-panel [data-outline-list]")) {
      showCount(finding()?.dataset.place);
      if (!finding()) return markTurn();
      const row = rows().find((one) => one.ariaCurrent === "true");
      row?.scrollIntoView({ block: "center" });
      if (row) goTo(row);
    }
  });

  document.addEventListener("htmx:afterSettle", (event) => {
    if (event.detail.target?.id !== "main") return;
    startReading();
    if (isTyped) field()?.focus({ preventScroll: true }); // the turn has taken it
    markTurn();
    reopenOutline(); // the link is htmx's only now
  });

  document.addEventListener("DOMContentLoaded", () => {
    addCodeButtons();
    startReading();
    reopenOutline();
  });
})();
