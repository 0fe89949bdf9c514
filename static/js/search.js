/* The search page: the preview that follows the selection, the filter chips, and what a search adds to the history.
   Without this file results are links, and chips are fields of a form. */
(() => {
  "use strict";

  const one = (selector, root = document) => root.querySelector(selector);
  const all = (selector, root = document) => [...root.querySelectorAll(selector)];
  const DELAY_MS = 120;

  let asked; // the request of the preview that is on its way

  const isBeside = () => getComputedStyle(one("#main")).display !== "none" && innerWidth > 720;
  const isOnSearchPage = () => ["/", "/search"].includes(location.pathname);

  function mark(hit) {
    for (const other of all('#results [aria-current="true"]')) other.removeAttribute("aria-current");
    hit.setAttribute("aria-current", "true");
  }

  /** The address that stands for these results with this one selected. */
  function addressOf(hit) {
    const address = new URL(one("[data-address]").dataset.address, location.href);
    address.searchParams.set("at", hit.dataset.key);
    return address;
  }

  function select(hit) {
    mark(hit);
    if (!isBeside()) return;
    const address = addressOf(hit);
    if (location.pathname === "/search") history.replaceState(history.state, "", address);
    else pushAddress(address);
    show(hit);
  }

  /** Adds to the history as htmx does, so that Back restores the page that was left. */
  function pushAddress(address) {
    history.replaceState({ ...history.state, htmx: true }, "");
    history.pushState({ htmx: true }, "", address);
  }

  function show(hit) {
    asked?.abort();
    asked = new AbortController();
    const loading = load(hit.dataset.preview, asked.signal);
    document.dispatchEvent(new CustomEvent("convmemory:loading", { detail: loading }));
  }

  async function load(address, signal) {
    await new Promise((done) => setTimeout(done, DELAY_MS));
    if (signal.aborted) return;
    try {
      const response = await fetch(address, { headers: { "HX-Request": "true" }, signal });
      const html = await response.text();
      if (response.headers.has("HX-Redirect")) location.assign(response.headers.get("HX-Redirect"));
      else if (response.ok && !signal.aborted) fill(html);
    } catch (error) {
      if (error.name !== "AbortError") htmx.trigger(document.body, "htmx:sendError");
    }
  }

  function fill(html) {
    const main = one("#main");
    main.innerHTML = html;
    htmx.process(main);
    main.scrollTop = 0;
    (one("#passage", main) ?? one(".is-target", main))?.scrollIntoView({ block: "center" });
    document.dispatchEvent(new Event("convmemory:previewed"));
  }

  /** Selects what the address names, else shows the first result, where nothing else is being read. */
  function showSelected() {
    const hits = all("#results .hit[data-preview]");
    if (!hits.length || !isOnSearchPage() || !isBeside()) return forget();
    const key = new URLSearchParams(location.search).get("at");
    const hit = hits.find((one) => one.dataset.key === key) ?? hits[0];
    hit.closest("details:not([open])")?.setAttribute("open", "");
    if (hit.dataset.key === key) hit.scrollIntoView({ block: "nearest" });
    mark(hit);
    show(hit);
  }

  /** Nothing is found: a preview of what was found before says nothing any more. */
  function forget() {
    asked?.abort();
    if (isOnSearchPage() && !one("#results .hit")) one("#main [data-preview]")?.remove();
  }

  document.addEventListener("convmemory:selected", (event) => {
    if (event.target.matches(".hit[data-preview]")) select(event.target);
  });

  document.addEventListener("htmx:afterSwap", ({ detail }) => {
    if (detail.target?.id === "results") showSelected();
    if (detail.target?.id === "main") asked?.abort();
  });

  const ROWS = ".item[href], .library-title, .documents-table th a";
  let looked; // the row that the dialog shows

  function addressOfLook(row) {
    const [, kind, number] = new URL(row.href).pathname.match(/^\/(conversations|documents)\/(\d+)$/) ?? [];
    return row.dataset.preview ?? (number && `/search/preview/${kind}/${number}`);
  }

  async function look(row) {
    const dialog = one("[data-look]"), address = row && addressOfLook(row);
    if (!address) return;
    looked = row;
    const opens = !dialog.open;
    const response = await fetch(address, { headers: { "HX-Request": "true" } });
    if (response.headers.has("HX-Redirect")) return location.assign(response.headers.get("HX-Redirect"));
    if (!response.ok) return document.dispatchEvent(new CustomEvent("convmemory:refused", { detail: response }));
    const html = await response.text();
    if (looked !== row || (!opens && !dialog.open)) return; // another one was asked for meanwhile, or it was closed
    dialog.innerHTML = html;
    htmx.process(dialog);
    if (!dialog.open) dialog.showModal();
    dialog.scrollTop = 0;
    dialog.focus({ preventScroll: true });
    one("#passage", dialog)?.scrollIntoView({ block: "center" });
  }

  document.addEventListener("close", ({ target }) => {
    if (!target.matches("[data-look]") || target.open) return; // the event comes late: the next row may be open by then
    target.innerHTML = ""; // its turns have the names of those on the page
    looked?.focus();
  }, true);

  document.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey || event.isComposing) return;
    const dialog = one("[data-look][open]"), row = event.target.closest?.(ROWS);
    const by = { j: 1, ArrowDown: 1, k: -1, ArrowUp: -1 }[event.key];
    if (dialog && event.target.matches("a, button, input, summary, textarea") && event.key === " ") return;
    if (dialog && event.key === " ") dialog.close();
    else if (dialog && event.key === "Enter" && !event.target.matches("a, button, summary")) one("[data-preview-open]", dialog)?.click();
    else if (dialog && by) {
      const rows = all(ROWS).filter((each) => each.checkVisibility());
      look(rows[rows.indexOf(looked) + by]);
    } else if (!dialog && event.key === " " && row && !one("dialog[open]")) look(row);
    else return;
    event.preventDefault();
    event.stopImmediatePropagation();
  }, true);

  async function star(hit) {
    const values = new URLSearchParams({ starred: "1", csrfmiddlewaretoken: one("[name=csrfmiddlewaretoken]").value });
    const address = `/conversations/${hit.dataset.conversation}/star`;
    const response = await fetch(address, { method: "POST", body: values, headers: { "HX-Request": "true" }, redirect: "manual" });
    if (response.headers.has("HX-Redirect")) return location.assign(response.headers.get("HX-Redirect"));
    if (!response.ok) return document.dispatchEvent(new CustomEvent("convmemory:refused", { detail: response }));
    const shown = one(`[data-preview] .star[action="${address}"] button`); // another preview may be shown by now
    shown?.setAttribute("aria-pressed", "true");
    if (shown) shown.form.elements.starred.value = "0"; // pressed again, it takes the star off
    say(word("The conversation is starred."));
  }

  document.addEventListener("keydown", (event) => {
    const hit = one("#results .hit[data-conversation][aria-current]");
    const isKey = event.key === "s" || event.key === "m";
    if (!isKey || event.ctrlKey || event.metaKey || event.altKey || !hit || one("dialog[open]")) return;
    if (event.target.matches?.("input, textarea, select, [contenteditable]")) return;
    event.preventDefault();
    if (event.key === "s") star(hit);
    else one(".like", hit.closest(".hit-row"))?.click();
  });

  let isBurst = false; // typing that has begun an entry of its own goes on in it
  let wasTyped = false;

  document.addEventListener("htmx:configRequest", ({ detail }) => {
    const form = one("[data-search]");
    if (!form || detail.elt !== form) return;
    const event = detail.triggeringEvent?.type;
    /* What was typed before the scripts were there is typed, too; what the browser filled in after a step back is not. */
    wasTyped = event === "input" || (event === "behind" && document.activeElement?.id === "q");
    if (!wasTyped) isBurst = false;
    detail.headers["X-Search-Step"] = wasTyped ? (isBurst ? "goes-on" : "typed") : event === "behind" ? "goes-on" : "chosen";
  });

  /* Only an answer adds an entry: a search that the next letter has cut short has not. */
  document.addEventListener("htmx:afterOnLoad", ({ detail }) => {
    if (detail.requestConfig?.elt?.matches?.("[data-search]")) isBurst = wasTyped;
  });

  document.addEventListener("focusout", (event) => {
    if (event.target.id === "q") isBurst = false;
  });

  /* Filters that were typed became chips: take them out of the box, unless more was typed since. */
  document.addEventListener("tokens-taken", ({ detail }) => {
    const box = one("#q");
    for (const [name, value] of Object.entries(detail.fields)) setField(box.form, name, value);
    if (box.value.trim() !== detail.sent.trim()) return;
    box.value = detail.rest && /\s$/.test(detail.sent) ? `${detail.rest} ` : detail.rest;
  });

  const changed = () => one("#filters").dispatchEvent(new Event("change", { bubbles: true }));

  function setField(form, name, value) {
    const fields = all(`[name="${name}"]`, form), wanted = [value].flat();
    for (const missing of Array.isArray(value) ? value : []) {
      if (fields.some((field) => field.value === missing)) continue;
      const added = document.createElement("input"); // until the chip is opened and shows all that there is to choose
      Object.assign(added, { type: "checkbox", name, value: missing, hidden: true });
      (one(`#choices-${name}`, form) ?? one("#filters")).append(added);
      fields.push(added);
    }
    for (const field of fields) {
      if (field.type === "radio" || field.type === "checkbox") field.checked = wanted.includes(field.value);
      else field.value = value;
    }
  }

  document.addEventListener("click", (event) => {
    const link = event.target.closest("[data-set]");
    const form = one("[data-search]");
    if (link && form && !event.ctrlKey && !event.metaKey) {
      event.preventDefault();
      for (const [name, value] of Object.entries(JSON.parse(link.dataset.set))) setField(form, name, value);
      link.closest("details")?.removeAttribute("open");
      changed();
    }
    for (const chip of all("details.chip-menu[open], details.why[open]")) if (!chip.contains(event.target)) chip.open = false;
  });

  // A choice made with the mouse closes its chip; with the arrow keys it is still being looked for.
  document.addEventListener("click", (event) => {
    if (event.detail && event.target.matches(".chip-menu input[type=radio]")) event.target.closest("details").open = false;
  });

  /* A chip that is opened fetches what the chips can be set to, unless that was fetched for the same filters; a choice
     that is made meanwhile counts, so what is on its way then is not waited for. */
  let choicesOf;

  const filtersOf = (form) => [...new FormData(form)].filter(([name]) => name !== "q").join("&");

  document.addEventListener("change", (event) => {
    if (event.target.closest("#filters")) htmx.trigger(one("[data-choices]"), "htmx:abort");
  });

  document.addEventListener("htmx:historyRestore", () => (choicesOf = undefined));

  document.addEventListener(
    "toggle",
    (event) => {
      if (!event.target.matches("#filters .chip-menu[open]")) return;
      for (const other of all("details.chip-menu[open]")) if (other !== event.target) other.open = false;
      one("[data-narrow]", event.target)?.focus();
      wantChoices(event.target.closest("form"));
    },
    true,
  );

  function wantChoices(form) {
    const filters = filtersOf(form);
    if (filters === choicesOf) return;
    choicesOf = filters;
    htmx.trigger(one("[data-choices]"), "wanted");
  }

  /* The choices are here: what was opened or typed for them goes on. */
  document.addEventListener("htmx:oobAfterSwap", ({ detail }) => {
    const list = detail.target?.isConnected ? detail.target : document.getElementById(detail.target?.id);
    if (!list?.id.startsWith("choices-")) return;
    if (list.closest("details[open]") && matchMedia("(pointer: fine)").matches) one("[data-narrow]", list)?.focus();
    if (document.activeElement?.id === "q") offer(one("#q"));
  });

  const rowsOf = (box) => all(box.dataset.narrow || ".choice-row", box.parentElement);

  function narrow(box) {
    const wanted = box.value.trim().toLowerCase();
    for (const row of rowsOf(box)) row.hidden = !`${row.textContent} ${row.title}`.toLowerCase().includes(wanted);
    for (const fold of all("details", box.parentElement)) {
      fold.open = Boolean(wanted) && rowsOf(box).some((row) => !row.hidden && fold.contains(row));
    }
  }

  document.addEventListener("input", ({ target }) => {
    if (target.matches("[data-narrow]")) narrow(target);
  });

  document.addEventListener("change", (event) => {
    if (event.target.matches("[data-narrow]")) event.stopPropagation(); // it is no filter
  }, true);

  document.addEventListener("keydown", (event) => {
    const { target, key } = event;
    if (!target.matches("[data-narrow]") || !["Enter", "ArrowDown"].includes(key)) return;
    event.preventDefault();
    event.stopPropagation();
    const first = rowsOf(target).find((row) => !row.hidden)?.querySelector("input");
    if (key === "Enter") first?.click();
    else first?.focus();
  }, true);

  const operators = () => one("[data-operators]");
  const wordBefore = (box) => /(?:^|\s)(\S*)$/.exec(box.value.slice(0, box.selectionStart))[1].toLowerCase();

  /** The operators that begin as the word before the caret does, and the values of one that is complete. */
  function offered(word) {
    const [, name, typed] = /^(agent|project):(.*)$/.exec(word) ?? [];
    if (name) {
      const rows = all(`#choices-${name} .choice-row`).filter((row) => row.textContent.toLowerCase().includes(typed));
      return rows.slice(0, 6).map((row) => {
        const { value } = one("input", row);
        return { text: `${name}:${/\s/.test(value) ? `"${value}"` : value} `, label: one("span", row).textContent };
      });
    }
    const isSign = word === "-" || word === '"';
    return all("template", operators())
      .map((known) => ({ text: known.dataset.text, label: known.dataset.text, meaning: known.dataset.meaning }))
      .filter(({ text }) => (isSign || word.length >= Math.min(3, text.length)) && text !== word && text.startsWith(word) && !text.includes(" "));
  }

  function offer(box) {
    const word = document.activeElement === box ? wordBefore(box) : "";
    if (/^(agent|project):/.test(word)) wantChoices(box.form);
    const found = word ? offered(word) : [];
    operators().replaceChildren(
      ...all("template", operators()),
      ...found.map(({ text, label, meaning }) => {
        const button = document.createElement("button");
        Object.assign(button, { type: "button", className: "operator" });
        button.dataset.insert = text;
        button.append(label);
        if (meaning) button.append(" ", Object.assign(document.createElement("small"), { textContent: meaning }));
        return button;
      }),
    );
    operators().hidden = !found.length;
  }

  document.addEventListener("input", ({ target }) => {
    if (target.id === "q") offer(target);
  });

  document.addEventListener("focusout", ({ target, relatedTarget }) => {
    if ((target.id === "q" || target.closest("[data-operators]")) && !relatedTarget?.closest("[data-operators]")) operators().hidden = true;
  });

  document.addEventListener("click", ({ target }) => {
    const button = target.closest("[data-insert]");
    if (!button) return;
    const box = one("#q"), at = box.selectionStart, from = at - wordBefore(box).length;
    box.focus();
    box.setRangeText(button.dataset.insert, from, at, "end");
    box.dispatchEvent(new Event("input", { bubbles: true }));
  });

  document.addEventListener("DOMContentLoaded", showSelected);
  document.addEventListener("htmx:historyRestore", showSelected);
})();
