"""The functions of the product that read foreign text, each as a function of one string.

A module that uses regular expressions or a library that reads text must have a function here, or a pattern that
`patterns.py` finds; `test_linear_time.py` holds that.
"""

import json
import tempfile
import zlib
from collections.abc import Callable
from contextlib import suppress
from datetime import date
from pathlib import Path
from typing import Any

import tiktoken

from benchmarks.datasets.beam import _without_plan_mark
from convmemory.chat.checked_answers import AnswerReader
from convmemory.chat.citations import link_citations, sources_in, with_citations
from convmemory.chat.deltas import CompletionDraft
from convmemory.chat.live import clean_title
from convmemory.conversations.exports.markdown_text import part_as_markdown
from convmemory.conversations.importers.base import FileReport, Importer, Source, is_newer
from convmemory.conversations.importers.chatgpt import node_drafts
from convmemory.conversations.importers.claude_code import ClaudeCodeImporter
from convmemory.conversations.importers.claude_prompts import QueueTracker, is_queued_prompt, read_prompt
from convmemory.conversations.importers.codex import CodexImporter
from convmemory.conversations.importers.content import content_parts
from convmemory.conversations.importers.detect import why_refused
from convmemory.conversations.importers.json_arrays import read_elements
from convmemory.conversations.importers.lines import objects_of_line
from convmemory.conversations.importers.mapping import proposed_mapping
from convmemory.conversations.importers.message_lists import sent_messages
from convmemory.conversations.importers.openwebui import _without_details
from convmemory.conversations.importers.places import beginning_of
from convmemory.conversations.importers.plain import PlainImporter
from convmemory.conversations.importers.takeout import _asked_markup, _plain, _shown_time
from convmemory.conversations.importers.threads import MessageKeys, Node, Timeline, order_thread
from convmemory.conversations.importers.values import (
    base64_size,
    clean,
    day_order,
    key_of,
    time_of,
    value_without_payloads,
    without_payloads,
)
from convmemory.conversations.importing.archives import _archive_stem, _safe_parts
from convmemory.conversations.importing.reasons import translated
from convmemory.conversations.messages.drafts import MessageDraft, event_words, words_query
from convmemory.conversations.messages.edits import Edit, Replacement, edits_in, edits_of, path_in_project
from convmemory.conversations.messages.errors import MessageInTurn, fix_in, is_report, signatures_of
from convmemory.conversations.messages.file_versions import versions_of
from convmemory.conversations.messages.hidden_keys import without_keys
from convmemory.conversations.messages.outcomes import Outcome, Spoken, call_line, end_of, outcome_of
from convmemory.conversations.messages.parts import (
    AttachmentPart,
    TextPart,
    ThinkingPart,
    ToolCallPart,
    ToolResultPart,
    part_to_json,
)
from convmemory.conversations.messages.thinking import thinking_apart
from convmemory.conversations.pages.ansi import ansi_html, without_sequences
from convmemory.conversations.pages.diffs import diff_of
from convmemory.conversations.pages.highlighting import MarkedSpan, highlight_markdown, highlight_text
from convmemory.conversations.pages.markdown_html import highlight_code, render_markdown
from convmemory.conversations.pages.mathematics import MATH_CHARS, formula_html, with_mathematics
from convmemory.conversations.pages.part_views import view_part
from convmemory.conversations.pages.pictures import _blocks, _payloads
from convmemory.conversations.pages.search_box import SearchBox
from convmemory.conversations.reading import StoredMessage
from convmemory.core.errors import InvalidInput
from convmemory.core.files.charsets import decode_text
from convmemory.core.folding import FoldedText, folded, joined_words
from convmemory.core.key_shapes import find_keys
from convmemory.core.templatetags.people import for_people
from convmemory.core.text import (
    content_hash,
    cut,
    fenced,
    json_storable,
    one_line,
    quoted,
    storable,
    visible,
    without_recalled,
)
from convmemory.core.titles import commit_subject, is_beginning, plan_title, title_from
from convmemory.core.tokens import ESTIMATE, count_tokens, cut_to_tokens, likely_tokens
from convmemory.core.usages import is_call
from convmemory.documents.converters.base import Unreadable, joined_row, parsed_xml
from convmemory.documents.converters.coverage import Coverage
from convmemory.documents.converters.number_formats import shown
from convmemory.documents.converters.ooxml import text_of
from convmemory.documents.converters.outlook import unpacked_rtf
from convmemory.documents.converters.pdf import lines_of_text, with_whole_words
from convmemory.documents.converters.plain import code_blocks, markdown_blocks
from convmemory.documents.converters.rtf import rtf_blocks
from convmemory.documents.converters.web import html_blocks, tree_of
from convmemory.documents.converting import masked_keys
from convmemory.documents.library import clean_name
from convmemory.documents.markdown_sections import lay_out, opening_after
from convmemory.documents.models import Section
from convmemory.documents.sheets import marks_of
from convmemory.documents.structure import Block, cut_sections
from convmemory.embeddings.token_reader import encodable
from convmemory.ops.reembed.own_ranking import Bm25
from convmemory.push.ignoring import is_ignored, parse_patterns
from convmemory.push.repositories import identity_of, parted
from memory.context import RecalledMessage, RecalledPassage, build_memory_context
from search.adapters.conversations import items_of, split_message
from search.languages import is_foreign, languages_of, pairs_of, parts_of_compounds, stems_of_arabic
from search.pages.groups import like_url
from search.pages.snippets import mark_words, show_marks, without_markup
from search.query import is_too_short
from search.query_text import QueryText, parse_query
from search.ranking.exchanges import is_question, names_in
from search.ranking.late_interaction import token_weights
from search.ranking.times.reading import find_date, read_time
from search.ranking.times.relative import quarter_days, relative_days
from search.ranking.topics import topic_of
from search.results.matching import QueryStems, stem, stems_of
from search.results.overturned import Said, overturning
from search.vectors.splitting import guess_language
from search.vectors.texts import head_and_tail, is_asking, item_texts, parseable, searchable, words_of_tools
from search.word_forms import indexed_text, phrase_query, queried_text
from summaries.by_model import part_messages
from summaries.sentences import spoken_sentences
from summaries.transcript import RangeMessage, message_text, pieces
from tests.unit.linear.agent_records import RECORDS, written

TextFunction = Callable[[str], object]
AgentRecord = Callable[[str], tuple[Importer, str, str | list[dict[str, Any]]]]


def _claude_line(text: str) -> object:
    return read_prompt({"type": "user", "message": {"content": text}})


def _imported(importer: Importer, lines: list[dict[str, object]]) -> object:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "session.jsonl"
        path.write_text("\n".join(map(json.dumps, lines)), encoding="utf-8")
        drafts = importer.parse(Source(path), FileReport(path=""))
        return [list(draft.messages) for draft in drafts]


def _claude_session(text: str) -> object:
    content = [{"type": "text", "text": text}]
    lines: list[dict[str, object]] = [
        {"type": kind, "uuid": kind, "sessionId": "s", "message": {"id": "m", "content": content}}
        for kind in ("user", "assistant")
    ]
    return _imported(ClaudeCodeImporter(), lines)


def _plain_messages(text: str) -> object:
    return _imported(PlainImporter(), [{"role": "user", "content": text}, {"role": "assistant", "content": text}])


def _records(record: AgentRecord) -> TextFunction:
    def read(text: str) -> object:
        importer, name, content = record(text)
        with tempfile.TemporaryDirectory() as folder:
            drafts = importer.parse(Source(written(Path(folder), name, content)), FileReport(path=""))
            return [list(draft.messages) for draft in drafts]

    return read


def _pieces(text: str, size: int) -> list[str]:
    return [text[at : at + size] for at in range(0, len(text), size)]


def _in_colours(text: str) -> object:
    """A sequence that is known, then one that is not, at every tenth character."""
    return ansi_html("\x1b[1m".join(_pieces(text, 10)) + "\x1b]".join(_pieces(text, 10)))


def _queue(text: str) -> object:
    """Every piece of the text enqueued, then taken up by one prompt."""
    queue = QueueTracker()
    for number, piece in enumerate(_pieces(text, 20)):
        queue.enqueue((number, 0), piece)
    queue.remove(text)
    queue.prompt((10**6, 0), text)
    queue.pop_all(text)
    return queue.plan()


def _beginnings(text: str) -> object:
    return [beginning_of(f"{start}{text}".encode()) for start in ("", '{"a": [', '["')]


def _proposed(text: str) -> object:
    turns = [{"who": name, "said": text, text[:100]: {text[:100]: text}} for name in ("me", "you")]
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "a.json"
        path.write_text(json.dumps({"talks": [{"turns": turns, "title": text}]}))
        return proposed_mapping(path)


def _refused(text: str) -> object:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "a.json"
        path.write_text(text, encoding="utf-8", errors="replace")
        source = Source(path)
        return why_refused(source, "auto"), source.head_objects


def _elements(text: str) -> object:
    """The text as a document, as an array's string that is never closed, and behind a bracket at every place."""
    found = []
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "a.json"
        for document in (text, f'["{text}', f'{{"conversations": [{text}]}}', "[" + "[" * len(text)):
            path.write_text(document, encoding="utf-8", errors="replace")
            with suppress(InvalidInput):
                found.append(list(read_elements(path, report=FileReport(path=""), names=("conversations",))))
    return found


def _thread(text: str) -> object:
    """A node for every ten characters; parents are named by the first, so they repeat, miss and run in circles."""
    chars = text[::10]
    nodes = [Node(f"{char}{at % 7}", f"{char}{(at + 1) % 11}", char) for at, char in enumerate(chars)]
    chain = [Node(str(at), str(at - 1), char) for at, char in enumerate(chars)]
    circle = [Node(str(at), str(at - 1 or len(chars) - 1), char) for at, char in enumerate(chars)]
    return [order_thread(items, report=FileReport(path="")) for items in (nodes, chain, circle, chain[::-1])]


def _chatgpt_node(text: str) -> object:
    content = {"content_type": "multimodal_text", "parts": [text, {"content_type": "text", "text": text}]}
    node = {"id": text[:50], "message": {"author": {"role": "assistant"}, "recipient": "python", "content": content}}
    return list(node_drafts(node, model="", unknown=lambda kind: None))


def _details(text: str) -> object:
    """The text as Open WebUI would write it, and with an element opened at every other place."""
    opened = '<details type="reasoning">'.join(text[at : at + 40] for at in range(0, len(text), 40))
    return _without_details(text), _without_details(opened), _without_details(f"{opened}</details>")


def _codex_lines(text: str) -> object:
    prompt: dict[str, object] = {"type": "event_msg", "payload": {"type": "user_message", "message": text}}
    answer: dict[str, object] = {
        "type": "response_item",
        "payload": {"type": "message", "role": "assistant", "content": text},
    }
    rolled_back: dict[str, object] = {
        "type": "event_msg",
        "payload": {"type": "thread_rolled_back", "num_turns": 10**9},
    }
    return _imported(CodexImporter(), [prompt, answer, rolled_back, prompt])


def _timeline(text: str) -> object:
    line, keys = Timeline(), MessageKeys()
    for at, char in enumerate(text[::10]):
        line.add(f"{char}{at}", opens_turn=at % 2 == 0)
        if at % 3 == 0:
            line.rewind_to(f"{char}{at // 2}")
        line.roll_back(at % 2)
    return [keys.key("user", text) for _ in range(3)]


def _json_lines(text: str) -> object:
    whole = json.dumps({"role": "user", "content": text}).encode()
    return [list(objects_of_line(line, number=1)) for line in (text.encode("utf-8", "replace"), whole, whole[:-2])]


def _stored(text: str) -> StoredMessage:
    parts = (TextPart(text), ThinkingPart(text), ToolCallPart("", "t", {"a": text}), ToolResultPart("", text))
    return StoredMessage(
        message_id=1, position=0, turn_number=0, role="user", name="", is_real_user=True, created_at=None, parts=parts
    )


def _split(text: str) -> object:
    return split_message((TextPart(text), ToolResultPart("", text)), is_real_user=True, is_assistant=False)


def _range_message(text: str) -> RangeMessage:
    return RangeMessage(1, 0, "user", True, text[:500], (TextPart(text), TextPart(text)))


def _recalled(text: str) -> object:
    passage = RecalledPassage(1, 0, 0, len(text), text, 0.5)
    message = RecalledMessage(1, 1, text, 0, 0, "user", text, None, (passage,), 0.5, 0.5)
    return build_memory_context([message], 10**6)


def _marked(text: str) -> object:
    return highlight_markdown(text, MarkedSpan(0, len(text)), lambda marked: f"<p>{visible(marked)}</p>")


def _rendered_passage(text: str) -> object:
    return view_part(TextPart(text), 0, tools={}, passage=MarkedSpan(len(text) // 2, len(text)))


def _part_views(text: str) -> object:
    parts = (ToolCallPart("", "t", {"command": text, "b": [text]}), ToolResultPart("", text))
    return [view_part(part, 0, tools={}, whole=True, passage=MarkedSpan(5, len(text))) for part in parts]


def _edits(text: str) -> object:
    """The text as a file that changes at its middle, as a patch, and as a file that is written."""
    changed = text[: len(text) // 2] + "x" + text[len(text) // 2 :]
    calls = (
        {"path": "a", "old_string": text, "new_string": changed},
        {"input": f"*** Begin Patch\n{text}"},
        {"path": "a", "edits": [{"old_str": line, "new_str": text[:10]} for line in text.split("\n")]},
    )
    more = (
        {"diff": text.replace("\n", "\n+", 5), "path": text},
        {"patch": f"--- a/x\n+++ b/x\n@@ -1,9 +1,9 @@\n{text}"},
    )
    for call in (*calls, *more):
        edits_of(ToolCallPart("1", "Edit", call))
    fix_in([MessageInTurn(0, "tool", (ToolResultPart("1", text),))], frozenset(signatures_of(text)))
    is_report(text)
    path_in_project(text, text[: len(text) // 2], "/barn")
    list(edits_in([(1, [ToolCallPart("1", "Write", calls[0]), ToolResultPart("1", text)])]))
    versions_of(enumerate([Edit("a", content=text), Edit("a", (Replacement(text[5:], changed), Replacement("x", "")))]))
    return [diff_of("Edit", call) for call in calls], diff_of("Write", {"path": "a", "content": text})


def _raw_pictures(text: str) -> object:
    """The text as a raw source: as it is, as a picture's payload, and as many objects."""
    block = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": text}}
    lines = (text.encode("utf-8", "replace"), json.dumps([block, [text], {"a": list(text)}]).encode())
    part = AttachmentPart("image", "image/png", base64_size(text))
    return [(list(_blocks(raw)), list(_payloads(raw, part))) for raw in map(zlib.compress, lines)]


def _code(language: str) -> TextFunction:
    return lambda text: highlight_code(text[:20_000], language)


def _stream(text: str) -> object:
    draft = CompletionDraft()
    for at in range(0, len(text), 10):
        call = {"index": 0, "function": {"name": "t", "arguments": text[at : at + 10]}}
        draft.add({"choices": [{"delta": {"content": text[at : at + 10], "tool_calls": [call]}}]})
    return draft.spoken_parts, draft.finished_calls()


def _content(text: str) -> object:
    blocks: list[object] = [
        {"type": "text", "text": text},
        {"type": "tool_use", "id": text, "name": "t", "input": text},
        {"type": "tool_result", "tool_use_id": text, "content": text},
        {"type": "image", "source": {"type": "base64", "data": text}},
        {"type": "of an unknown type", text[:1_000]: [text]},
    ]
    return [part_to_json(part) for part in content_parts(blocks, unknown=lambda kind: None)]


def _sent(text: str) -> object:
    """The text in pieces as parts of known and of unknown types, in each shape of messages."""
    pieces = [text[at : at + 20] for at in range(0, len(text), 20)]
    odd = [{"type": "of an unknown type", "piece": piece} for piece in pieces]
    calls = [{"type": "function_call", "call_id": piece, "name": piece, "arguments": piece} for piece in pieces]
    parts = [{"functionCall": {"id": piece, "name": piece, "args": {piece: piece}}} for piece in pieces]
    return sent_messages(
        [
            {"role": "user", "content": [*odd, {"type": "tool_result", "content": odd}]},
            {"role": "assistant", "content": calls, "tool_calls": calls},
            *calls,
            {"role": "model", "parts": [*parts, *odd, *({"text": piece} for piece in pieces)]},
            {"role": "user", "parts": [{"type": "text", "text": piece} for piece in pieces]},
        ]
    )


TODAY = date(2026, 11, 18)


_BYTES = tiktoken.Encoding(
    "bytes",
    pat_str=r"""[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+""",
    mergeable_ranks={bytes([value]): value for value in range(256)}
    | {
        sign * 2**power: 300 + 8 * number + power
        for number, sign in enumerate((b"a", b" ", b"-"))
        for power in (1, 2, 3)
    },
    special_tokens={},
)


def _outcome(text: str) -> Outcome:
    parts = (
        TextPart(text), ToolCallPart("1", "apply_patch", {"input": f"*** Update File: {text}"}),
        ToolResultPart("1", text),
    )  # fmt: skip
    return outcome_of([Spoken("assistant", parts)])


def _page(text: str) -> None:
    with suppress(Unreadable):  # of an element with too many attributes
        list(html_blocks(tree_of(text), Coverage()))


def _part_of_archive(text: str) -> None:
    with suppress(SyntaxError):
        parsed_xml(f"<a>{text}</a>".encode("utf-8", "replace"))


def _rich_text(text: str) -> None:
    with suppress(Unreadable):  # of groups that are nested too deeply
        rtf_blocks(text.encode("utf-8", "replace"))


def _packed_rich_text(text: str) -> bytes:
    return unpacked_rtf(bytes(4) + b"\xff" * 4 + bytes(8) + text.encode("utf-8", "replace"))


def _drawing(text: str) -> None:
    with suppress(SyntaxError):
        root = parsed_xml(f"<a><sp>{text}</sp></a>".encode("utf-8", "replace"))
        text_of(root)


def _laid_out(text: str) -> object:
    first, second = (Section(number=number, path=[], start=0, text=text) for number in range(2))
    return list(lay_out([first, second], opening=opening_after(text), passage=MarkedSpan(3, len(text) - 3)))


def _exported(text: str) -> list[str]:
    call = ToolCallPart("1", text[:100], {"a": text})
    return [part_as_markdown(part) for part in (TextPart(text), ThinkingPart(text), call, ToolResultPart("1", text))]


def _without_keys(text: str) -> object:
    parts = (TextPart(text), ToolCallPart("1", "Bash", {"command": [text, {text[:100]: text}]}))
    return without_keys(MessageDraft("user", parts, raw=text.encode("utf-8", "replace")))


def _checked_answer(text: str) -> object:
    reader = AnswerReader("question", {1: text})
    return [*reader.feed(f'{text} [1 "{text[:300]}"].\n'), *reader.finish()]


def _ignored(text: str) -> object:
    """The text as the patterns of a file, and as the path of a folder."""
    patterns = parse_patterns("a*b*c\n**/[a-z]*/x/**\n/?*/!*.*\n")
    return is_ignored(["work", "a"], parse_patterns(text)), is_ignored(text.split("/"), patterns)


TEXT_FUNCTIONS: dict[str, TextFunction] = {
    "convmemory.core.usages": lambda text: is_call("path [--yes | --dry-run]", {"path", text}),
    "convmemory.push.ignoring": _ignored,
    "convmemory.chat.checked_answers": _checked_answer,
    "convmemory.chat.deltas": _stream,
    "convmemory.context.sending left out": lambda text: one_line(text, 500),
    "convmemory.conversations.importing.archives": lambda text: (_safe_parts(text), _archive_stem(text)),
    "convmemory.conversations.exports.markdown_text": _exported,
    "convmemory.conversations.messages.hidden_keys": _without_keys,
    "convmemory.conversations.pages.highlighting": _marked,
    "convmemory.conversations.pages.highlighting text": lambda text: highlight_text(text, MarkedSpan(1, len(text))),
    "convmemory.conversations.importers.claude_code": _claude_session,
    "convmemory.conversations.importers.claude_prompts typed": _claude_line,
    "convmemory.conversations.importers.claude_prompts queued": is_queued_prompt,
    "convmemory.conversations.importers.claude_prompts": _queue,
    "convmemory.conversations.importers.content": _content,
    "convmemory.conversations.importers.message_lists": _sent,
    "convmemory.conversations.importers.chatgpt chatgpt content": _chatgpt_node,
    "convmemory.conversations.importers.codex": _codex_lines,
    "convmemory.conversations.importers.json_arrays": _elements,
    "convmemory.conversations.importers.openwebui": _details,
    "convmemory.push.repositories": parted,
    "convmemory.push.repositories remotes": identity_of,
    "convmemory.conversations.importers.detect refusals": _refused,
    "convmemory.conversations.importers.places": _beginnings,
    "convmemory.conversations.importers.mapping": _proposed,
    "convmemory.conversations.importers.takeout": lambda text: (_plain(text), _shown_time(text), _asked_markup(text)),
    "convmemory.conversations.importers.threads": _thread,
    "convmemory.conversations.importers.threads timeline": _timeline,
    "convmemory.conversations.importers.base versions": lambda text: is_newer(text, "1.2"),
    "convmemory.conversations.importers.lines": _json_lines,
    "convmemory.conversations.importers.values payloads": without_payloads,
    "convmemory.conversations.importers.values payloads value": lambda text: value_without_payloads(
        [text, {text: text}]
    ),
    "convmemory.conversations.importers.plain": _plain_messages,
    "convmemory.conversations.importers.values": lambda text: (clean(text), key_of(text), time_of(text)),
    "convmemory.conversations.importers.values dates": lambda text: day_order([text.encode("utf-8", "replace")]),
    "convmemory.chat.citations": lambda text: (link_citations(text, {1: "/conversations/1"}), sources_in([text])),
    "convmemory.chat.citations of a result": lambda text: with_citations(
        {"results": [{"url": text, "cite": text}, {"url": f"/conversations/1{text}"}]}, first=1
    ),
    "convmemory.chat.live titles": clean_title,
    "convmemory.core.templatetags.people": for_people,
    "convmemory.conversations.importing.reasons": translated,
    "convmemory.core.titles": lambda s: (title_from([s], 80), plan_title(s, 80), is_beginning(s, s), commit_subject(s)),
    "convmemory.conversations.pages.ansi": lambda text: (ansi_html(text), without_sequences(text)),
    "convmemory.conversations.pages.ansi sequences": _in_colours,
    "convmemory.conversations.pages.diffs": _edits,
    "convmemory.conversations.pages.pictures": _raw_pictures,
    "convmemory.conversations.pages.markdown_html": render_markdown,
    "convmemory.conversations.pages.part_views passage": _rendered_passage,
    "convmemory.conversations.pages.part_views parts": _part_views,
    "convmemory.core.text fence": lambda text: (
        visible(text),
        without_recalled(text),
        without_recalled(f"<recalled-memory>{text}</recalled-memory>"),
        fenced(text, "summary"),
        quoted(text, "recalled-memory"),
    ),
    "convmemory.conversations.messages.outcomes": lambda text: (
        _outcome(text),
        end_of(ToolResultPart("1", text)),
        call_line(ToolCallPart("1", "bash", {"command": text}), None),
    ),
    "convmemory.conversations.messages.thinking": lambda text: thinking_apart(
        [TextPart(f"<think>\n{text}"), TextPart(f"{text}\n<think>\n{text}</thin")]
    ),
    "convmemory.core.key_shapes": find_keys,
    "convmemory.core.text": lambda text: (storable(text), json_storable([text]), cut(text, 9), content_hash(text)),
    "convmemory.core.tokens": lambda text: (likely_tokens(text), count_tokens(text, encoding=ESTIMATE)),
    "convmemory.core.tokens cut": lambda text: cut_to_tokens(text, 50, encoding=ESTIMATE),
    "convmemory.core.tokens vocabulary": lambda text: _BYTES.decode_with_offsets(_BYTES.encode_ordinary(text)),
    "convmemory.core.files.charsets": lambda text: decode_text(text.replace("\0", "").encode("gb18030", "replace")),
    "convmemory.documents.converters.base": lambda text: joined_row([text, text]),
    "convmemory.documents.converters.ooxml": _drawing,
    "convmemory.documents.converters.number_formats": lambda text: [shown(7.5, text[:n]) for n in (9, 99, 250, 999)],
    "convmemory.documents.converters.pdf": lambda text: with_whole_words([line for _, line in lines_of_text(text)]),
    "convmemory.documents.converters.plain": lambda text: list(markdown_blocks(text)),
    "convmemory.documents.converters.plain code": lambda text: list(code_blocks(text)),
    "convmemory.documents.converters.rtf": _rich_text,
    "convmemory.documents.converters.outlook": _packed_rich_text,
    "convmemory.documents.converters.base packed": _part_of_archive,
    "convmemory.documents.converters.web": _page,
    "convmemory.documents.converting hiding": masked_keys,
    "convmemory.documents.library": clean_name,
    "convmemory.documents.markdown_sections": _laid_out,
    "convmemory.documents.sheets": lambda text: marks_of(
        [[(word, 0, 0, 1, 1) for word in text.split()]], passage=text[:200], before=text[:100]
    ),
    "convmemory.documents.structure": lambda text: cut_sections([Block(text), Block(text, level=1)]),
    "convmemory.embeddings.token_reader": encodable,
    "benchmarks.datasets.beam": _without_plan_mark,
    "convmemory.ops.reembed.own_ranking": lambda text: Bm25([text]).scores(text),
    "memory.context": _recalled,
    "convmemory.core.folding": lambda text: (folded(text), FoldedText.of(text), list(joined_words(text))),
    "search.word_forms": lambda text: (indexed_text(text), queried_text(text[:10_000]), phrase_query(text[:200])),
    "search.languages arabic": lambda text: list(stems_of_arabic(text)),
    "search.languages compounds": lambda text: list(parts_of_compounds(text, "german")),
    "search.languages foreign": is_foreign,
    "search.languages": lambda text: languages_of({"A": text, "B": text}),
    "search.languages unspaced": lambda text: list(pairs_of(text)),
    "search.query": is_too_short,
    "search.ranking.topics": lambda text: topic_of(QueryText(text)),
    "search.query_text": parse_query,
    "search.ranking.times.reading dates": lambda text: find_date(text, TODAY),
    "search.ranking.times.reading": lambda text: read_time(text, TODAY),
    "search.ranking.times.relative": lambda text: (relative_days(text, TODAY), quarter_days(text, TODAY)),
    "search.ranking.late_interaction": lambda text: token_weights(text, [(0, 1)], {"a": 1.0}),
    "convmemory.conversations.messages.drafts event words": lambda text: (
        event_words(text, payload={text[:100]: [text]}),
        words_query(text),
    ),
    "search.ranking.exchanges": lambda text: (is_question(text), names_in(text, ["a"]), names_in("a", [text])),
    "search.results.overturned": lambda text: overturning(Said(text, text), Said(text, text), is_next=True),
    "search.results.matching": lambda text: (
        stems_of(text),
        stem(text),
        QueryStems({"a": 1.0}, ["a a", "?!"]).places_in(text),
        QueryStems({"a": 1.0, "ab": 1.0, "a-a": 1.0, "-ab": 1.0}).held_in(text),
        QueryStems({"a": 1.0}, ["a b"]).anchor_in(text),
    ),
    "search.vectors.splitting": lambda text: (_split(text), guess_language(text)),
    "search.vectors.texts": lambda text: (searchable(text, "german"), parseable(text), head_and_tail(text, 4_000)),
    "search.vectors.texts words of tools": lambda text: (words_of_tools([text, text]), is_asking("user", text)),
    "search.vectors.texts item": lambda text: [item_texts(item).length for item in items_of([_stored(text)])],
    "search.pages.groups": lambda text: like_url(text, text),
    "search.pages.snippets": lambda text: (
        mark_words(text, 'some words of "mine and yours"'),
        mark_words(text[:200], text[:500]),
        show_marks(text, [(0, 1)]),
        without_markup(text),
    ),
    "convmemory.conversations.pages.mathematics": lambda text: with_mathematics(formula_html(text[:MATH_CHARS], "$")),
    "convmemory.conversations.pages.search_box": lambda text: SearchBox().with_tokens(text),
    "summaries.by_model prompts": lambda text: part_messages(text, number=1, count=1, max_tokens=100),
    "summaries.sentences": lambda text: spoken_sentences([_range_message(text)]),
    "summaries.transcript": lambda text: list(
        pieces([message_text(_range_message(text))], max_tokens=500, count_tokens=lambda text: len(text) // 3)
    ),
    **{f"convmemory.conversations.importers.{record.__name__}": _records(record) for record in RECORDS},
    **{
        f"convmemory.conversations.pages.markdown_html {language}": _code(language)
        for language in ("python", "javascript", "typescript", "html", "bash", "json", "yaml", "sql", "c", "csharp")
    },
}
