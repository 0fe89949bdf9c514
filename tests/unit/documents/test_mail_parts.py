"""Mails in mailboxes and in mails, versions of one text, letters of old programs, and what is attached."""

from email.message import EmailMessage
from pathlib import Path

from tests.support.documents import converted, text_of


def mail_of(subject: str, text: str) -> EmailMessage:
    message = EmailMessage()
    message["From"], message["To"], message["Subject"] = "ada@example.org", "bob@example.org", subject
    message.set_content(text)
    return message


def test_every_mail_of_mailbox_is_read(tmp_path: Path) -> None:
    first = b"From: a@example.org\nSubject: First\n\nalderwick\n>From the start it was clear.\nFrom here on, too.\n\n"
    second = mail_of("Zweite Gr\u00fc\u00dfe", "birchenough")
    second.replace_header("Content-Transfer-Encoding", "7bit")
    box = b"From 1799@xxx Mon Oct 05 23:30:00 +0000 2026\n" + first + b"From b Tue Oct 06\n" + bytes(second)
    for data in (box, box.replace(b"\n", b"\r\n")):
        heading, sections = converted(tmp_path, data, "takeout.mbox")
        assert heading.coverage == [{"part": "mail", "read": 2, "total": 2}]
        for words in ("alderwick", "\nFrom the start", "From here on", "birchenough"):
            assert words in text_of(sections).replace("\r", "")
        assert (heading.format, heading.title) == ("email", "takeout")


def test_enclosed_mails_are_read_and_attachments_named(tmp_path: Path) -> None:
    inner = mail_of("Inner", "mosswort")
    inner.add_attachment(b"%PDF-", maintype="application", subtype="pdf", filename="deep.pdf")
    outer = mail_of("Outer", "See the mail below.")
    outer.add_attachment(inner)
    outer.add_attachment(b"\x89PNG", maintype="image", subtype="png")
    outer.add_attachment("a,b\n1,2\n", subtype="csv", filename="table.csv")
    heading, sections = converted(tmp_path, bytes(outer), "a.eml")
    assert "mosswort" in text_of(sections)
    assert heading.title == "Outer"
    assert heading.notes == ["3 attachments were not read (deep.pdf, image/png, table.csv). Upload them by themselves."]
    assert {"part": "enclosed mail", "read": 1, "total": 1} in heading.coverage


def test_longer_version_of_text_is_read(tmp_path: Path) -> None:
    message = mail_of("News", "View this mail in a browser.")
    message.add_alternative(f"<p>{'The harvest is in. ' * 9}</p><img src=a>", subtype="html")
    heading, sections = converted(tmp_path, bytes(message), "a.eml")
    assert "The harvest is in." in text_of(sections)
    assert "View this mail" not in text_of(sections)
    assert heading.notes == ["1 picture was not read."]


def test_all_texts_of_mixed_mail_are_read(tmp_path: Path) -> None:
    data = (
        b"From: a@b\nSubject: s\nMIME-Version: 1.0\nContent-Type: multipart/mixed; boundary=x\n\n"
        b"--x\n\nfirst words\n--x\nContent-Type: text/html\n\n<p>second words\n"
        b"--x\nContent-Type: text/plain; charset=windows-1251\nContent-Disposition: inline; filename=a.txt\n\n"
        + "третьи".encode("cp1251")
        + b"\n--x--\n"
    )
    _, sections = converted(tmp_path, data, "a.eml")
    for words in ("first words", "second words", "третьи"):
        assert words in text_of(sections)


def test_headers_and_text_without_charset_are_decoded(tmp_path: Path) -> None:
    text = "Протокол совещания: ответственный Иванов, срок до конца октября."
    data = f"From: a@b\nTo: c@d\nSubject: {text}\n\n{text}\n".encode("koi8-r")
    heading, sections = converted(tmp_path, data, "old.eml")
    assert heading.title == text
    assert text_of(sections).count(text) == 2


def test_prose_that_begins_like_mail_is_text(tmp_path: Path) -> None:
    prose = "From: the desk of the gardener\nTo: all who read\nthis is a letter in prose\nof many lines\nand more\n"
    assert converted(tmp_path, prose, "letter.txt")[0].format == "text"
    assert converted(tmp_path, "From here on\nit: is text\n", "a.txt")[0].format == "text"
