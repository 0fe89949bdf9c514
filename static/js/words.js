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
})();
