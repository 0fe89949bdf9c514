/* What scripts say, in the page's language. The keys are the English words; `core/web/languages.py` lists them. */
(() => {
  "use strict";

  let known = null;

  window.word = (text, values = {}) => {
    known ??= JSON.parse(document.getElementById("words")?.textContent ?? "{}");
    return (known[text] ?? text).replace(/\{(\w+)\}/g, (all, name) => values[name] ?? all);
  };
})();
