/* Reading a conversation: its title edited in place, copying links, messages and code, the outline beside it, and the
   words that were looked for marked. Without this file titles are changed in the menu and the outline is a page. */
(() => {
  "use strict";

  const one = (selector, root = document) => root.querySelector(selector);
  const all = (selector, root = document) => [...root.querySelectorAll(selector)];

  /** Says something for a moment where the page's own messages are said. */
  function say(text) {
    const toast = one("#toast");
    toast.textContent = text;
    toast.hidden = false;
    clearTimeout(say.timer);
    say.timer = setTimeout(() => (toast.hidden = true), 2500);
  }

  /* --- the title ------------------------------------------------------------------------------- */

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
    const title = form.elements.title.value.trim();
    const body = new FormData(form), headers = { "HX-Request": "true" };
    const response = await fetch(form.action, { method: "POST", body, headers, redirect: "manual" });
    if (response.headers.has("HX-Redirect")) return location.assign(response.headers.get("HX-Redirect"));
    if (response.type !== "opaqueredirect") return say(reasonIn(await response.text()) ?? word("The title could not be saved."));
    const head = one("[data-title]");
    head.textContent = head.title = title;
    document.title = `${title} · convmemory`;
    const number = one("[data-conversation-page]").dataset.conversationPage;
    for (const item of all(`.item[data-conversation="${number}"]:not(.hit) .item-title`)) item.textContent = title;
    editTitle(false);
  }

  /* --- copying --------------------------------------------------------------------------------- */

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

  /* --- the outline ----------------------------------------------------------------------------- */

  const panel = () => one(".outline-panel");
  const KEY = "convmemory.outline";

  function remember(isOpen) {
    try {
      localStorage.setItem(KEY, isOpen ? "open" : "");
    } catch {
      // no storage: it is closed on the next page
    }
  }

  function wasOpen() {
    try {
      return localStorage.getItem(KEY) === "open";
    } catch {
      return false;
    }
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
    const main = one("#main");
    const scroller = getComputedStyle(main).overflowY === "auto" ? main : document.scrollingElement;
    if (read) scroller.scrollTop += read.getBoundingClientRect().top - before;
  }

  function closeOutline() {
    keepingPlace(() => (panel().hidden = true));
    remember(false);
    one("[data-outline-link]").focus({ preventScroll: true });
  }

  /** The panel has been filled: show it, with the present turn in view. */
  function openOutline() {
    keepingPlace(() => (panel().hidden = false));
    remember(true);
    one("[aria-current]", panel())?.scrollIntoView({ block: "center" });
  }

  /** Puts the caret where words of the page are looked for. */
  function find() {
    if (panel()?.hidden) one("[data-outline-link]").click();
    else one("[data-find]")?.focus();
  }

  document.addEventListener("convmemory:find", find);

  /** Fills the panel of a page on which it was left open, where there is room for both. */
  function reopenOutline() {
    if (panel()?.hidden && !panel().children.length && wasOpen() && matchMedia("(min-width: 1280px)").matches) {
      one("[data-outline-link]").click();
    }
  }

  /* --- the turn that is being read ------------------------------------------------------------------ */

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
    for (const name of ["m", "part", "from", "to", "before", "after"]) address.searchParams.delete(name);
    address.searchParams.set("turn", turn);
    address.hash = `turn-${turn}`;
    return address.href;
  }

  /** Says in the head, in the outline and in the address which turn is being read. */
  function showTurn(turn) {
    const nav = one(".turns", page());
    if (!nav || one("[data-turn-now]", nav).textContent === String(turn)) return;
    one("[data-turn-now]", nav).textContent = turn;
    nav.hidden = false;
    for (const link of all("a", nav)) {
      const to = turn + (link.rel === "next" ? 1 : -1), fresh = link.cloneNode(true);
      fresh.href = addressOfTurn(to);
      fresh.hidden = to < 0 || to >= Number(nav.dataset.turns);
      link.replaceWith(fresh);
      htmx.process(fresh); // htmx keeps the address that a link had at first
    }
    for (const row of all("[data-outline-turn]", panel())) {
      if (row.dataset.outlineTurn === String(turn)) row.setAttribute("aria-current", "true");
      else row.removeAttribute("aria-current");
    }
    one("[data-outline-turn][aria-current]", panel())?.scrollIntoView({ block: "nearest" });
    history.replaceState(history.state, "", addressOfTurn(turn));
  }

  function follow() {
    const turn = isRead && page() && turnInView();
    if (turn) showTurn(Number(turn.dataset.turn));
  }

  const SCROLL_KEYS = ["PageUp", "PageDown", "Home", "End", "ArrowUp", "ArrowDown", " "];

  for (const type of ["wheel", "touchmove", "keydown", "pointerdown"]) {
    addEventListener(type, ({ target, key }) => {
      const isScrollBar = target === pane(); // pressed beside its content
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

  /* --- the words that were looked for -------------------------------------------------------------- */

  const UNSPACED = /[\p{scx=Han}\p{scx=Hira}\p{scx=Kana}\p{scx=Hang}\p{scx=Thai}\p{scx=Laoo}\p{scx=Mymr}\p{scx=Khmr}]/u;
  const ENDINGS = ["ingly", "edly", "ings", "ing", "ied", "ies", "ed", "es", "ly", "s"];
  const isLetter = (character) => /[\p{L}\p{M}\p{N}]/u.test(character) && !UNSPACED.test(character);

  /** How the word begins, whatever its ending: words are the same as in search/results/matching.py. */
  function stem(word) {
    const ending = ENDINGS.find((one) => word.endsWith(one) && word.length - one.length >= 3);
    if (ending) return word.slice(0, -ending.length).replace(/[ie]+$/, "");
    return word.length > 3 ? word.replace(/[ie]+$/, "") : word;
  }

  /** Where the word stands in the text, from its first letter to its last; no part of a longer one, where letters
      beside it would make it longer. */
  function* placesOf(word, text) {
    const isSpaced = !UNSPACED.test(word);
    const start = isSpaced ? stem(word) : word;
    for (let at = text.indexOf(start); at >= 0; at = text.indexOf(start, at + 1)) {
      let end = at + start.length;
      while (isSpaced && isLetter(text.charAt(end))) end += 1;
      const isWhole = !isLetter(text.charAt(at - 1)) && stem(text.slice(at, end)) === start;
      if (!isSpaced || isWhole) yield [at, end];
    }
  }

  /** Marks the words in the messages, which stay as they are. */
  function markWords() {
    const words = one("[data-found]")?.dataset.found.match(/[\p{L}\p{M}\p{N}_]{2,}/gu) ?? [];
    if (!globalThis.CSS?.highlights) return;
    CSS.highlights.delete("found-words");
    if (!words.length || !one("[data-messages]")) return;
    const wanted = words.map((word) => word.toLowerCase());
    const ranges = [];
    const walker = document.createTreeWalker(one("[data-messages]"), NodeFilter.SHOW_TEXT);
    for (let node = walker.nextNode(); node && ranges.length < 2000; node = walker.nextNode()) {
      const text = node.data.toLowerCase();
      for (const [start, end] of wanted.flatMap((word) => [...placesOf(word, text)])) {
        const range = new Range();
        range.setStart(node, Math.min(start, node.length));
        range.setEnd(node, Math.min(end, node.length));
        ranges.push(range);
      }
    }
    CSS.highlights.set("found-words", new Highlight(...ranges));
  }

  /* --- what happens ------------------------------------------------------------------------------ */

  document.addEventListener("click", (event) => {
    const found = (selector) => event.target.closest(selector);
    const edit = found("[data-edit-title]");
    edit?.closest("details.menu")?.removeAttribute("open");
    if (edit) return editTitle(true);
    if (found("[data-close-outline]")) return closeOutline();
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
    if (!link || panel().hidden) return;
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
    } else if (event.key === "Escape" && active.closest(".outline-panel")) {
      closeOutline();
      event.stopImmediatePropagation();
    } else if ("JK".includes(event.key) && !event.ctrlKey && !event.metaKey && !event.altKey && page() &&
      !active.matches("input, textarea, select, [contenteditable]")) {
      one(`.turns a[rel=${event.key === "J" ? "next" : "prev"}]:not([hidden])`)?.click();
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

  document.addEventListener("htmx:afterSwap", (event) => {
    if (event.detail.target?.id === "outline") {
      openOutline();
      const first = one("[data-found] a", panel());
      if (first) markWords();
      (first ?? one("[data-find]", panel()))?.focus({ preventScroll: true });
    }
    addCodeButtons();
  });

  document.addEventListener("htmx:afterSettle", (event) => {
    if (event.detail.target?.id !== "main") return;
    startReading();
    reopenOutline(); // the link is htmx's only now
  });

  document.addEventListener("DOMContentLoaded", () => {
    addCodeButtons();
    startReading();
    reopenOutline();
  });
})();
