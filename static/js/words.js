/* What scripts say, in the page's language, or in the server's own words. The keys are the English words; `core/web/languages.py` lists them. */
(() => {
  "use strict";

  let known = null;

  window.word = (text, values = {}) => {
    known ??= JSON.parse(document.getElementById("words")?.textContent ?? "{}");
    return (known[text] ?? text).replace(/\{(\w+)\}/g, (all, name) => values[name] ?? all);
  };

  /** The server's sentence in the response to a refused request; undefined if it has none. */
  window.reasonIn = (response) => {
    try {
      return JSON.parse(response).detail?.replaceAll("`", "");
    } catch {
      return undefined;
    }
  };

  let hiding; // the timer of the notice that is shown

  /** Shows texts and links for a moment, in the place of what was shown before. */
  window.say = (shown, ms = 2500) => {
    const toast = document.getElementById("toast");
    toast.replaceChildren(...[shown].flat());
    toast.hidden = false;
    clearTimeout(hiding);
    hiding = setTimeout(() => (toast.hidden = true), ms);
  };
})();
