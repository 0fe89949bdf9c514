# ruff: noqa: RUF001 (letters of many scripts)
"""The encoding of a text: proven by its marks, named by itself, or guessed by its letters."""

import random

import pytest

from convmemory.core.files.charsets import charset_of, declared_charset, decode_text, other_charset

SENTENCES = {
    "鷺沼計画の議事録です。担当は山田さん、期限は十月末、議長は木村。": ("cp932", "euc_jp", "iso2022_jp"),
    "会议记录：负责人张伟，截止日期十月底，项目代号鹭湖计划。": ("gb18030",),
    "會議紀要：負責人張偉，截止日期十月底，專案代號鷺湖計畫。伺服器遷移已完成。": ("big5", "gb18030"),
    "회의록: 담당자는 김민수, 마감일은 시월 말입니다. 서버 이전이 완료되었습니다.": ("euc_kr",),
    "Протокол совещания: ответственный Иванов, срок до конца октября.": ("cp1251", "koi8_r", "cp866", "iso8859_5"),
    "Протокол наради: відповідальний Іваненко, термін до кінця жовтня.": ("cp1251", "koi8_u"),
    "Notatka: osoba odpowiedzialna Łukasz Żółć, termin do końca października.": ("cp1250", "iso8859_2"),
    "Zápis ze schůzky: odpovědná osoba Jiří Dvořák, termín do konce října.": ("cp1250", "iso8859_2"),
    "Jegyzőkönyv: felelős Kovács Győző, a határidő október vége.": ("cp1250", "iso8859_2"),
    "Protokoll der Sitzung: zuständig ist Jürgen Müller, Frist bis Ende Oktober.": ("cp1252", "mac_roman", "cp850"),
    "Procès-verbal : responsable Hélène Lefèvre, échéance fin octobre.": ("cp1252", "cp850"),
    "Acta de la reunión: responsable José Núñez, fecha límite a finales de octubre.": ("cp1252",),
    "Πρακτικά συνεδρίασης: υπεύθυνος ο Γιώργος, προθεσμία τέλη Οκτωβρίου.": ("cp1253", "iso8859_7"),
    "פרוטוקול הפגישה: האחראי הוא יוסי כהן, המועד האחרון סוף אוקטובר.": ("cp1255",),
    "محضر الاجتماع: المسؤول هو أحمد، الموعد النهائي نهاية أكتوبر.": ("cp1256",),
    "Toplantı tutanağı: sorumlu kişi Işık Şahin, son tarih ekim sonu.": ("cp1254",),
    "รายงานการประชุม ผู้รับผิดชอบคือสมชาย กำหนดส่งสิ้นเดือนตุลาคม": ("tis-620",),
    "Wide text without a mark, in two lines:\n—“é” ß": ("utf-16-le", "utf-16-be", "utf-32-le", "utf-32-be"),
    "Протокол совещания\nбез метки": ("utf-16-le", "utf-16-be"),
    "会议记录\n没有标记": ("utf-16-le", "utf-16-be"),
    "With a mark: é": ("utf-8", "utf-8-sig", "utf-16", "utf-32"),
}


@pytest.mark.parametrize("repeated", [1, 40])
@pytest.mark.parametrize(
    ("sentence", "encoding"), [(text, encoding) for text, encodings in SENTENCES.items() for encoding in encodings]
)
def test_text_is_decoded_in_its_encoding(sentence: str, encoding: str, repeated: int) -> None:
    text = "\n".join([sentence] * repeated)
    assert decode_text(text.encode(encoding))[0] == text


def test_guess_is_noted_and_proof_is_not() -> None:
    assert decode_text("Bäume".encode())[1] == []
    assert decode_text("Bäume".encode("utf-16"))[1] == []
    [note] = decode_text("Привет, мир. Как твои дела?".encode("cp1251"))[1]
    assert note.startswith("The file does not name its encoding; its text was read as windows-1251.")
    [note] = decode_text("Seite ü".encode("cp1252"))[1]
    assert "may be wrong" in note


def test_declared_encoding_is_used_where_it_fits() -> None:
    cyrillic = "Привет, мир".encode("cp1251")
    assert decode_text(cyrillic, declared="windows-1251") == ("Привет, мир", [])
    assert decode_text("“quoted”".encode("cp1252"), declared="iso-8859-1") == ("“quoted”", [])
    assert decode_text("Привет".encode(), declared="windows-1251")[0] == "Привет"
    for unusable in ("utf-16", "base64", "rot13", "no-such", "\0", "utf-8"):
        assert charset_of(cyrillic, declared=unusable).is_guess, unusable


@pytest.mark.parametrize(
    ("start", "name"),
    [
        (b'<?xml version="1.0" encoding="Shift_JIS"?><html>', "Shift_JIS"),
        (b"<html><head><meta charset=windows-1251>", "windows-1251"),
        (b'<META http-equiv="Content-Type" content="text/html; charset=GB2312">', "GB2312"),
        (b"<p>charset=utf-8", ""),
    ],
)
def test_page_names_its_charset(start: bytes, name: str) -> None:
    assert declared_charset(start) == name


def test_damaged_utf8_stays_utf8_and_loss_is_noted() -> None:
    text, notes = decode_text("Größe, Länge, Höhe, ".encode() * 9 + b"\xff end")
    assert text.endswith("Höhe, \ufffd end")
    assert notes == ["1 character could not be decoded as UTF-8: save the file as UTF-8."]


def test_text_far_into_ascii_is_sampled_where_it_stands() -> None:
    text = "plain words\n" * 20_000 + "Протокол совещания: ответственный Иванов, срок до октября."
    assert decode_text(text.encode("cp1251"))[0] == text


def test_random_bytes_are_never_certain() -> None:
    for seed in range(60):
        assert not charset_of(random.Random(seed).randbytes(400)).is_certain


def test_only_texts_are_decoded_for_importers() -> None:
    russian = "**Вопрос:** Как дела? Расскажи о погоде в Москве.".encode("cp1251")
    charset = other_charset("chat.md", russian)
    assert charset
    assert charset.name == "cp1251"
    assert other_charset("chat.db", russian) is None
    assert other_charset("chat.md", "Größe".encode()) is None
    assert other_charset("chat.json", b'{"a": "\xfe \xff"}') is None
    assert other_charset("chat.txt", b"\x7fELF\x00\x00\xff\x01") is None
