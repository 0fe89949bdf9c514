"""Pages of Google Takeout: answers, the conversations that entries link, and times in other languages."""

from datetime import UTC, datetime
from pathlib import Path

import pytest

from convmemory.conversations.importers.base import FileReport
from convmemory.conversations.importers.takeout import TakeoutImporter
from tests.unit.importers.helpers import read

CELL = (
    '<div class="outer-cell mdl-cell"><div class="mdl-grid"><div class="header-cell"><p>Gemini Apps<br></p></div>'
    '<div class="content-cell mdl-cell mdl-typography--body-1">{content}</div>'
    '<div class="content-cell mdl-typography--caption"><b>Products:</b><br>&emsp;Gemini Apps</div></div></div>'
)
LINK = '<a href="https://gemini.google.com/app/{id}">{prompt}</a>'
IN_APRIL = datetime(2026, 4, 12, 15, 34, 31, tzinfo=UTC)


def page(folder: Path, *contents: str) -> Path:
    path = folder / "MyActivity.html"
    path.write_text(f"<html><body>{''.join(CELL.format(content=content) for content in contents)}</body></html>")
    return path


def test_answer_behind_time_is_read_and_linked_entries_are_one_conversation(tmp_path: Path) -> None:
    first, second = LINK.format(id="aa11", prompt="Which yeast?"), LINK.format(id="aa11", prompt="How much of it?")
    answer = f"<p>Two <b>grams</b>.</p><p>See {LINK.format(id='bb22', prompt='another chat')}</p>"
    path = page(
        tmp_path,
        f"Prompted&nbsp;{second}<br>Apr 12, 2026, 3:35:31 PM CET<br>{answer}",
        f"Prompted&nbsp;{first}<br>Attached 1 file.<br>flour.png<br>Apr 12, 2026, 3:34:31 PM CET<br><p>Fresh.</p>",
        "Used Gemini Apps<br>Apr 12, 2026, 3:00:00 PM CET<br>",
        "Prompted&nbsp;And salt?<br>Apr 13, 2026, 3:00:00 PM CET<br><pre>ten\n  grams</pre>",
    )
    report = FileReport(path="")
    linked, other = read(TakeoutImporter(), path, report)
    assert linked.draft.source_id == "aa11"
    assert linked.texts == [
        "Which yeast?\nAttached 1 file.\nflour.png",
        "Fresh.",
        "How much of it?",
        "Two grams.\nSee another chat",
    ]
    assert linked.messages[0].created_at == IN_APRIL
    assert (other.draft.source_id, other.texts) == ("day:2026-04-13", ["And salt?", "ten\ngrams"])
    assert "1 entries record no prompt: Used (1)" in report.notes


@pytest.mark.parametrize(
    "time",
    [
        *("12.04.2026, 15:34:31 MESZ", "12 avr. 2026, 15:34:31 CEST", "12 de abr. de 2026, 15:34:31 BRT"),
        *("12 kwi 2026, 15:34:31 CEST", "12 апр. 2026, 15:34:31 MSK", "12 Nis 2026 15:34:31 TRT"),
        *("2026/04/12 15:34:31 JST", "2026年4月12日 下午3:34:31 CST", "2026. 4. 12. 오후 3:34:31 KST"),
        *("12. apr. 2026 15.34.31 CEST", "2026. ápr. 12. 15:34:31 CEST", "١٢/٠٤/٢٠٢٦، ٣:٣٤:٣١ م"),
        *("12/4/2026 17:34:31 GMT+02:00", "12 thg 4, 2026, 22:34:31 GMT+7", "Apr 12, 2026, 3:34:31\u202fPM UTC"),
    ],
)
def test_time_in_any_language_divides_prompt_from_answer(tmp_path: Path, time: str) -> None:
    (chat,) = read(TakeoutImporter(), page(tmp_path, f"Hefe?<br>{time}<br><p>Frische.</p>"))
    assert chat.texts == ["Hefe?", "Frische."]
    assert chat.messages[0].created_at == IN_APRIL


def test_entry_with_unknown_month_keeps_prompt_and_answer_without_time(tmp_path: Path) -> None:
    report = FileReport(path="")
    (chat,) = read(TakeoutImporter(), page(tmp_path, "Hefe?<br>12 xyz 2026, 15:34:31<br><p>Frische.</p>"), report)
    assert (chat.texts, chat.messages[0].created_at, report.repaired) == (["Hefe?", "Frische."], None, 1)
