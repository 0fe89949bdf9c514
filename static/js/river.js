/* The brush of the river of time: a span of it is chosen by dragging over the picture, or with two sliders, and searched.
   Without this file its months are links of a list. */
(() => {
  "use strict";

  const isMirrored = document.documentElement.dir === "rtl"; // time runs to the left
  const language = document.documentElement.lang;
  let held = null; // the picture and the column where a drag began

  function datesOf(picture) {
    const day = picture.dataset.river === "day" ? { day: "numeric" } : {};
    return new Intl.DateTimeFormat(language, { ...day, month: "short", year: "numeric", timeZone: "UTC" });
  }

  function partsOf(picture) {
    const [after, before] = picture.querySelectorAll("input[type=hidden]");
    const [from, to] = picture.querySelectorAll("input[type=range]");
    return { after, before, from, to, output: picture.querySelector("output"), chosen: picture.querySelector("[data-chosen]") };
  }

  function columnsOf(picture) {
    return picture.dataset.columns.split(" ").map((text) => {
      const [first, last, messages] = text.split("/");
      return { first, last, messages: Number(messages) };
    });
  }

  /** Shows the columns from one to another, and says which time that is and how many messages are in it. */
  function show(picture, start, end) {
    const columns = columnsOf(picture).slice(start, end + 1), count = columnsOf(picture).length;
    const { from, to, output, chosen } = partsOf(picture), dates = datesOf(picture);
    const [first, last] = [new Date(columns[0].first), new Date(columns.at(-1).last)];
    const messages = columns.reduce((sum, column) => sum + column.messages, 0);
    from.ariaValueText = dates.format(first);
    to.ariaValueText = dates.format(last);
    output.value = `${dates.formatRange(first, last)} · ${output.dataset.words} ${messages.toLocaleString(language)}`;
    chosen.hidden = false;
    chosen.style.setProperty("--from", `${(100 * start) / count}%`);
    chosen.style.setProperty("--wide", `${(100 * columns.length) / count}%`);
  }

  function choose(picture, one, other) {
    const { after, before, from, to } = partsOf(picture), columns = columnsOf(picture);
    const [start, end] = [Math.min(one, other), Math.max(one, other)];
    from.value = start;
    to.value = end;
    after.value = columns[start].first;
    before.value = columns[end].last;
    show(picture, start, end);
  }

  function columnAt(picture, event) {
    const { left, width } = picture.querySelector("svg").getBoundingClientRect();
    const share = (event.clientX - left) / width, count = columnsOf(picture).length;
    return Math.min(Math.max(Math.floor((isMirrored ? 1 - share : share) * count), 0), count - 1);
  }

  /** Puts the hits of a saved search at their days; those outside of the picture go. */
  function place(lane) {
    const columns = columnsOf(lane.closest("[data-river]"));
    for (const hit of lane.querySelectorAll("[data-day]")) {
      const { day } = hit.dataset, index = columns.findIndex(({ first, last }) => first <= day && day <= last);
      if (index === -1) {
        hit.remove();
        continue;
      }
      const [from, to, at] = [columns[index].first, columns[index].last, day].map(Date.parse);
      hit.style.setProperty("--at", `${(100 * (index + (at - from) / (to - from + 86_400_000))) / columns.length}%`);
    }
  }

  document.addEventListener("htmx:oobAfterSwap", ({ detail: { target } }) => target.matches?.("[data-lane]") && place(target));

  const pictureOf = (event) => event.target.closest?.(".river-bands svg")?.closest("[data-river]");

  document.addEventListener("pointerdown", (event) => {
    const picture = pictureOf(event);
    if (!picture || event.button) return;
    if (event.pointerType === "mouse") event.preventDefault(); // no text is selected meanwhile
    held = { picture, column: columnAt(picture, event) };
    choose(picture, held.column, held.column);
  });

  document.addEventListener("pointermove", (event) => {
    const picture = held?.picture ?? pictureOf(event);
    if (!picture) return;
    const column = columnAt(picture, event);
    if (held) choose(picture, held.column, column);
    else show(picture, column, column);
  });

  /** Back to what was chosen, when the pointer is over the picture no more. */
  document.addEventListener("pointerout", (event) => {
    const picture = pictureOf(event);
    if (!picture || held) return;
    const { from, to } = partsOf(picture);
    show(picture, Number(from.value), Number(to.value));
  });

  document.addEventListener("pointerup", (event) => {
    if (!held) return;
    const { picture, column } = held;
    held = null;
    choose(picture, column, columnAt(picture, event));
    picture.querySelector("form").requestSubmit();
  });

  document.addEventListener("pointercancel", () => { held = null; }); // the page is scrolled instead

  document.addEventListener("input", (event) => {
    const picture = event.target.closest?.(".river-ends")?.closest("[data-river]");
    if (!picture) return;
    const { from, to } = partsOf(picture), isFrom = event.target === from;
    // the end that is moved takes the other one along
    const [start, end] = [Number(from.value), Number(to.value)];
    if (isFrom) choose(picture, start, Math.max(start, end));
    else choose(picture, Math.min(start, end), end);
  });

  document.addEventListener("submit", (event) => {
    const picture = event.target.closest?.(".river-range")?.closest("[data-river]");
    if (!picture) return;
    const { from, to } = partsOf(picture);
    choose(picture, Number(from.value), Number(to.value));
  }, true);
})();
