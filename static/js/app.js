/* What links and forms cannot do alone: the keyboard, scrolling to the turn that was looked for, staying in
   place while earlier messages are put in above. Without this file every page works. */
(() => {
  "use strict";

  const one = (selector, root = document) => root.querySelector(selector);
  const all = (selector, root = document) => [...root.querySelectorAll(selector)];
  const main = () => one("#main");
  const query = () => one("#q");

  /** What scrolls: the reading pane next to the list, the whole page on a narrow screen. */
  const scroller = () =>
    getComputedStyle(main()).overflowY === "auto" ? main() : document.scrollingElement;

  /** Whether all of the element is in view, below the page's head. */
  function isInView(element) {
    const { top, bottom } = element.getBoundingClientRect();
    const head = one(".page-head")?.getBoundingClientRect().bottom ?? 0;
    return top >= head && bottom <= innerHeight;
  }

  /** Scrolls on to the passage that was found where it stands too far below the beginning of its turn. */
  function showPassage() {
    const passage = one("#passage");
    if (!passage || passage.closest("[data-preview]")) return;
    const marks = all("mark.passage");
    if (isInView(passage) && (!marks.length || isInView(marks.at(-1)))) return;
    const room = innerHeight - one(".page-head").offsetHeight;
    const height = (marks.at(-1) ?? passage).getBoundingClientRect().bottom - passage.getBoundingClientRect().top;
    passage.scrollIntoView({ block: height < room / 2 ? "center" : "start" });
    passage.focus({ preventScroll: true });
  }

  /** Shows the turn that the page was opened at and its passage, or the page's top. */
  function showTarget() {
    if (one("#main [data-preview]")) return;
    const page = one("[data-conversation-page]");
    const turn = page?.dataset.targetTurn;
    const target = turn === undefined ? null : one(`[data-turn="${turn}"]`, page);
    if (target) {
      target.scrollIntoView({ block: "start" });
      target.focus({ preventScroll: true });
      showPassage();
    } else if (one("#passage")) {
      showPassage();
    } else {
      scroller().scrollTop = 0;
    }
  }

  /** Marks in the list what the reading pane shows. */
  function markCurrent() {
    const page = one("[data-conversation-page]");
    if (!page && one("#main [data-preview]")) return;
    for (const item of all(".item")) {
      const isSame = page && item.dataset.conversation === page.dataset.conversationPage;
      const isTurn = !item.dataset.turnLink || item.dataset.turnLink === page?.dataset.targetTurn;
      if (isSame && isTurn) item.setAttribute("aria-current", "page");
      else item.removeAttribute("aria-current");
    }
  }

  function mainChanged() {
    showTarget();
    markCurrent();
  }

  const LOADING_MS = 150; // what comes sooner needs no sign
  const underway = new Set(); // what will replace the main area: promises
  let dimming;

  /** Dims the main area while it waits for another page. Keys that act on its content do nothing until then. */
  async function showLoading(loading) {
    if (!underway.size) dimming = setTimeout(() => main().classList.add("is-loading"), LOADING_MS);
    underway.add(loading);
    main().setAttribute("aria-busy", "true");
    await loading;
    underway.delete(loading);
    if (underway.size) return;
    clearTimeout(dimming);
    main().classList.remove("is-loading");
    main().removeAttribute("aria-busy");
  }

  const endOf = (xhr) => new Promise((done) => xhr.addEventListener("loadend", done));

  document.addEventListener("htmx:beforeSend", ({ detail: { elt, target, xhr } }) => {
    if (target.id !== "main") return;
    showLoading(endOf(xhr));
    if (elt.matches(".item")) selectItem(elt);
  });

  document.addEventListener("htmx:historyCacheMiss", ({ detail }) => showLoading(endOf(detail.xhr)));
  document.addEventListener("convmemory:loading", ({ detail }) => showLoading(detail));

  /** Marks the row that was opened before its page is there. */
  function selectItem(opened) {
    for (const item of all(".item[aria-current]")) item.removeAttribute("aria-current");
    opened.setAttribute("aria-current", "page");
  }

  /* Earlier messages and drawn pages are put in above what is being read: keep that where it is. */
  let kept = null;

  function keepPlace(reference) {
    kept = reference && { reference, top: reference.getBoundingClientRect().top };
  }

  /** The passage if it is being read, otherwise the page after one that has been scrolled past. */
  function readBelow(sheet) {
    const passage = one("#passage");
    if (passage && !sheet.contains(passage) && isInView(passage)) return passage;
    const head = one(".page-head").getBoundingClientRect().bottom;
    return sheet.getBoundingClientRect().top < head ? sheet.nextElementSibling : null;
  }

  function restorePlace() {
    if (!kept) return;
    scroller().scrollTop += kept.reference.getBoundingClientRect().top - kept.top;
    kept = null;
  }

  document.addEventListener("htmx:beforeSwap", (event) => {
    const { target, shouldSwap } = event.detail;
    if (shouldSwap && target.matches("[data-earlier]")) keepPlace(target.nextElementSibling);
    if (shouldSwap && target.matches(".sheet")) keepPlace(readBelow(target));
  });

  /* What loads itself again, and is there no more, replaces nothing. */
  document.addEventListener("htmx:beforeSwap", ({ detail: { target, requestConfig }, detail }) => {
    const { elt } = requestConfig;
    if (target.id === "main" && elt.matches("[hx-trigger^=load]") && !elt.isConnected) detail.shouldSwap = false;
  });

  /* A row's page gets its address also where the list was loaded again meanwhile: a row that is gone asks for none. */
  document.addEventListener("htmx:beforeRequest", ({ detail: { elt, target, etc } }) => {
    if (target.id === "main" && elt.matches("#results .item")) etc.push ??= "true";
  });

  document.addEventListener("htmx:afterSwap", (event) => {
    restorePlace();
    const target = event.detail.target;
    if (target?.id === "main") mainChanged();
    if (target?.id === "results") {
      markCurrent();
      if (wantsFirst) focusFirst();
    }
  });

  /* htmx scrolls to the address's fragment when it has settled: the passage comes after that. */
  document.addEventListener("htmx:afterSettle", (event) => {
    if (event.detail.target?.id === "main") queueMicrotask(showPassage);
  });

  /* A page of a document has been drawn, and took the place of its text. */
  document.addEventListener("htmx:load", (event) => {
    if (event.detail.elt.matches?.(".sheet") && one("#passage", event.detail.elt)) showPassage();
  });

  document.addEventListener("htmx:historyRestore", mainChanged);

  let wantsFirst = false; // Enter was pressed in the search box: go on to the first result

  const items = () => all("#results .item, #results a.more, .library-title").filter((item) => item.checkVisibility());

  /** The result that is open or shown, out of the fold that hides it. */
  function currentItem() {
    const item = one("#results .item[aria-current]");
    for (let fold = item?.closest("details"); fold; fold = fold.parentElement.closest("details")) fold.open = true;
    return item;
  }

  function focusFirst() {
    wantsFirst = false;
    items()[0]?.focus();
  }

  function step(from, by) {
    const list = items();
    const next = list.indexOf(from) + by;
    if (next < 0) return query().focus();
    list[next]?.focus();
    list[next]?.dispatchEvent(new Event("convmemory:selected", { bubbles: true }));
  }

  /** From the selected result to the next one (j) or the one before (k), wherever the focus is. */
  function stepFromSelected(by) {
    const active = document.activeElement;
    const at = active?.closest("#results .item, .library-title") ?? currentItem();
    if (at || by > 0) step(at, by);
  }

  function clearSearch() {
    const box = query();
    if (!box.value) return box.blur();
    box.value = "";
    box.form.requestSubmit();
    wantsFirst = false;
  }

  function onEscape(active) {
    const open = active.closest("details.menu[open], details.chip-menu[open], details.why[open]");
    if (open) {
      open.open = false;
      one("summary", open).focus();
    } else if (active === query()) {
      clearSearch();
    } else if (active.closest("#results")) {
      query().focus();
    } else {
      (currentItem() ?? query()).focus();
    }
  }

  /** The result whose preview answers what stands in the box: Enter opens it, as the preview says. */
  function shownHit() {
    const isCurrent = queryOf(query().form) === listed && !underway.size && one("#main [data-preview]");
    return isCurrent && one("#results .hit[data-preview][aria-current]");
  }

  const stepKeys = { j: 1, k: -1 };
  const hitKeys = { n: "[data-hit=next]", p: "[data-hit=previous]" };
  const isInList = (element) => element.closest("#results, .library-title");
  const isTyping = (element) => element.matches("input, textarea, select, [contenteditable]");

  document.addEventListener("keydown", (event) => {
    const active = document.activeElement ?? document.body;
    if (event.isComposing || event.ctrlKey || event.metaKey || event.altKey || !query() || one("dialog[open]")) return;
    if (event.key === "/" && !isTyping(active)) {
      query().focus();
      query().select();
    } else if (event.key === "Escape") {
      onEscape(active);
    } else if (event.key === "Enter" && active === query() && shownHit()) {
      (one("#results [data-ask-button]:not([hidden])") ?? shownHit()).click();
    } else if (hitKeys[event.key] && !isTyping(active) && one(hitKeys[event.key])) {
      if (!underway.size) one(hitKeys[event.key]).click();
    } else if (stepKeys[event.key] && !isTyping(active) && items().length) {
      stepFromSelected(stepKeys[event.key]);
    } else if (event.key === "ArrowDown" && active.matches(".library-find [type=search]")) {
      one(".library-title")?.focus();
    } else if (event.key === "ArrowDown" && (active === query() || isInList(active))) {
      step(active === query() ? null : active.closest("a"), 1);
    } else if (event.key === "ArrowUp" && isInList(active)) {
      step(active.closest("a"), -1);
    } else {
      return;
    }
    event.preventDefault();
  });

  // A form sends the bare names of a folder's files: where each lay is sent with them.
  document.addEventListener("submit", ({ target }) => {
    const folder = one("input[webkitdirectory]", target), paths = one("input[name=paths]", target);
    if (folder && paths) paths.value = JSON.stringify([...folder.files].map((file) => file.webkitRelativePath));
  });

  document.addEventListener("submit", (event) => {
    if (event.target.matches("[data-search]")) wantsFirst = document.activeElement === query();
  });

  document.addEventListener("input", (event) => {
    if (event.target === query()) wantsFirst = false;
  });

  let listed; // the query whose results the list shows, as an address writes it

  const queryOf = (form) => String(new URLSearchParams(new FormData(form)));

  /** The query that the page was made for, whatever was typed into the form since. */
  function servedQuery() {
    const form = query().form.cloneNode(true);
    form.reset();
    return queryOf(form);
  }

  /** Searches where the form asks for something else than the list shows: typed before the scripts were there, filled
      in again by the browser, or broken off when the page was left. */
  function catchUp() {
    const form = query()?.form;
    if (!form) return;
    if (queryOf(form) !== listed) htmx.trigger(form, "behind");
    const chip = one("#filters .chip-menu[open]");
    if (chip) chip.dispatchEvent(new Event("toggle")); // what it can be set to waits for that
  }

  document.addEventListener("htmx:afterRequest", ({ detail }) => {
    if (!detail.successful || detail.elt !== query()?.form) return;
    listed = String(new URL(detail.pathInfo.finalRequestPath, location).searchParams);
  });

  addEventListener("pageshow", catchUp);

  /* What is kept has changed: the list is loaded again, unless it shows what a search has found. */
  document.addEventListener("convmemory:changed", () => {
    const form = query()?.form;
    if (form && !query().value && one("#results") && !one("#results .choices-pane")) htmx.trigger(form, "behind");
  });

  document.addEventListener("click", (event) => {
    for (const menu of all("details.menu[open]")) {
      if (!menu.contains(event.target)) menu.open = false;
    }
    const button = event.target.closest("[data-copy]");
    if (button) copy(button);
  });

  /* A new link is copied while the click that made it still allows that. */
  document.addEventListener("htmx:afterSettle", () => {
    for (const button of all("[data-copy]")) button.hidden = false;
    const made = one("[data-copy-now]");
    made?.removeAttribute("data-copy-now");
    if (made) copy(made);
  });

  async function copy(button) {
    const source = one(button.dataset.copy);
    try {
      await navigator.clipboard.writeText(source.textContent.trim());
      button.textContent = word("Copied");
    } catch {
      getSelection().selectAllChildren(source); // no clipboard without HTTPS: copied as a selection, else left to Ctrl-C
      button.textContent = document.execCommand("copy") ? word("Copied") : word("Selected");
    }
    setTimeout(() => (button.textContent = word("Copy")), 2000);
  }

  const FAILURE_MS = 6000;

  document.addEventListener("htmx:sendError", () => {
    markCurrent();
    say(word("The server does not answer. Is it running?"), FAILURE_MS);
  });

  function sayRefused(status, response) {
    markCurrent();
    const reason = reasonIn(response) ?? word("The server could not answer that. Try again in a moment.");
    say(status === 404 ? word("That is no longer there.") : reason, FAILURE_MS);
  }

  document.addEventListener("htmx:responseError", ({ detail: { xhr } }) => sayRefused(xhr.status, xhr.responseText));
  document.addEventListener("convmemory:refused", async ({ detail }) => sayRefused(detail.status, await detail.text()));

  document.addEventListener("change", async ({ target }) => {
    const form = target.closest("[data-apply]");
    if (!form) return;
    const body = new FormData(form), headers = { "HX-Request": "true" };
    const response = await fetch(form.action, { method: "POST", body, headers, redirect: "manual" });
    if (response.headers.has("HX-Redirect")) return location.assign(response.headers.get("HX-Redirect"));
    if (response.type !== "opaqueredirect") return document.dispatchEvent(new CustomEvent("convmemory:refused", { detail: response }));
    if (target.name === "language") return location.reload();
    document.documentElement.dataset[target.name] = target.value;
    one("[data-applied]", form).textContent = word("Saved");
  });

  document.addEventListener("DOMContentLoaded", () => {
    for (const button of all("[data-copy]")) button.hidden = false;
    if (one("[data-target-turn], #passage")) showTarget();
    markCurrent();
    if (!query()) return;
    listed = servedQuery();
    catchUp();
  });
})();
