/* Markdown of a reply that is still being written, as elements made one by one: no HTML of the model's is ever read.
   The server renders the reply with its own rules once it is stored; this knows what replies mostly consist of. */

const FENCE = /^(\s*)(`{3,}|~{3,})\s*([\w+#.-]*)/;
const ITEM = /^\s{0,8}(?:[-*+]|(\d{1,9})[.)])\s+/;
const HEADING = /^(#{1,6})\s+(.*)$/;
const INLINE = /(`[^`\n]{1,2000}`)|\*\*([^*\n]{1,2000})\*\*|\*([^*\s][^*\n]{0,2000})\*|\[([^\]\n]{1,500})\]\(((?:https?:\/\/|\/(?:conversations|documents)\/\d)[^\s)]{1,2000})\)|\[(\d{1,4})\]/;

function make(tag, text = "") {
  const element = document.createElement(tag);
  element.textContent = text;
  return element;
}

function link(label, address) {
  const made = make("a", label);
  made.href = address;
  made.rel = "noopener noreferrer nofollow";
  if (address.startsWith("/") && /^\d+$/.test(label)) made.className = "citation";
  return made;
}

/** Text with code, emphasis, links and citations, whose addresses are in `sources`, at the end of `parent`. */
function addInline(parent, text, sources) {
  let rest = text;
  for (let match = INLINE.exec(rest); match; match = INLINE.exec(rest)) {
    parent.append(rest.slice(0, match.index));
    const [whole, code, strong, emphasis, label, address, number] = match;
    if (code) parent.append(make("code", code.slice(1, -1)));
    else if (strong) parent.append(make("strong", strong));
    else if (emphasis) parent.append(make("em", emphasis));
    else if (address) parent.append(link(label, address));
    else parent.append(sources.has(number) ? link(number, sources.get(number)) : whole);
    rest = rest.slice(match.index + whole.length);
  }
  parent.append(rest);
}

function codeBlock(language, lines) {
  const block = make("div"), pre = make("pre");
  block.className = "code";
  block.dataset.language = language;
  pre.append(make("code", lines.join("\n")));
  block.append(pre);
  return block;
}

/** A fragment with the text laid out; what is not closed yet counts as open to the end. */
export function renderMarkdown(text, sources = new Map()) {
  const page = document.createDocumentFragment();
  const lines = text.split("\n");
  let list = null, paragraph = null;
  for (let at = 0; at < lines.length; at++) {
    const line = lines[at], fence = FENCE.exec(line), heading = HEADING.exec(line), item = ITEM.exec(line);
    if (!fence && !heading && !item && line.trim() && (paragraph ?? list?.lastChild)) {
      const open = paragraph ?? list.lastChild;
      open.append(document.createElement("br"));
      addInline(open, line, sources);
      continue;
    }
    paragraph = null;
    if (!item && (line.trim() || lines[at + 1]?.trim() === "")) list = null;
    if (fence) {
      const end = lines.findIndex((other, number) => number > at && other.trim() === fence[2]);
      page.append(codeBlock(fence[3], lines.slice(at + 1, end < 0 ? undefined : end)));
      at = end < 0 ? lines.length : end;
    } else if (heading) {
      const title = make(`h${heading[1].length}`);
      addInline(title, heading[2], sources);
      page.append(title);
    } else if (item) {
      const tag = item[1] === undefined ? "ul" : "ol";
      if (list?.localName !== tag) {
        list = make(tag);
        if (item[1] !== undefined) list.start = Number(item[1]);
        page.append(list);
      }
      const entry = make("li");
      addInline(entry, line.slice(item[0].length), sources);
      list.append(entry);
    } else if (line.trim()) {
      paragraph = make("p");
      addInline(paragraph, line, sources);
      page.append(paragraph);
    }
  }
  return page;
}
