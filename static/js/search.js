/* The search page: the preview that follows the selection, the filter chips, and what a search adds to the history.
   Without this file results are links, and chips are fields of a form. */
(() => {
  "use strict";

  const one = (selector, root = document) => root.querySelector(selector);
  const all = (selector, root = document) => [...root.querySelectorAll(selector)];
  const DELAY_MS = 120;

  /* --- the preview --------------------------------------------------------------------------------- */

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

  /* --- what a search adds to the history --------------------------------------------------------- */

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

  /* --- chips ------------------------------------------------------------------------------------- */

  const changed = () => one("#filters").dispatchEvent(new Event("change", { bubbles: true }));

  function setField(form, name, value) {
    const fields = all(`[name="${name}"]`, form);
    if (fields[0]?.type === "radio" && !fields.some((field) => field.value === value)) {
      const added = fields[0].cloneNode(); // until the chip is opened and shows all that there is to choose
      added.value = value;
      added.hidden = true;
      fields[0].after(added);
      fields.push(added);
    }
    for (const field of fields) {
      if (field.type === "radio") field.checked = field.value === value;
      else if (field.type === "checkbox") field.checked = value.split(",").includes(field.value);
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
      const filters = filtersOf(event.target.closest("form"));
      if (filters === choicesOf) return;
      choicesOf = filters;
      htmx.trigger(one("[data-choices]"), "wanted");
    },
    true,
  );

  document.addEventListener("DOMContentLoaded", showSelected);
  document.addEventListener("htmx:historyRestore", showSelected);
})();
