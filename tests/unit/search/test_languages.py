"""Detecting the language of a text, and splitting German compounds."""

import pytest

from search.languages import (
    CACHED_WORDS,
    ENGLISH,
    LANGUAGES,
    _patterns_of,
    configuration_of,
    language_of,
    languages_of,
    pairs_of,
    parts_of_compounds,
    stems_of_arabic,
)

SENTENCES = {
    "arabic": "متى يصلني كشف المصاريف من المالك؟",
    "armenian": "Ե՞րբ եմ ստանալու հաշիվը տանտիրոջից.",
    "danish": "Hvornår får jeg regningen, og hvad skal jeg gøre, hvis den ikke kommer til tiden?",
    "dutch": "Wanneer krijg ik de afrekening van het huis, en wat moet ik doen als die niet komt?",
    "finnish": "Milloin saan laskun, ja mitä minä teen, jos se ei ole tullut ajoissa?",
    "french": "Quand est-ce que je reçois le décompte des charges, et que faire s'il ne vient pas ?",
    "german": "Wann bekomme ich die Abrechnung, und was mache ich, wenn sie nicht kommt?",
    "greek": "Πότε θα λάβω τον λογαριασμό από τον ιδιοκτήτη;",
    "hindi": "मुझे मकान मालिक से हिसाब कब मिलेगा?",
    "hungarian": "Mikor kapom meg az elszámolást, és mit kell tennem, ha nem jön meg?",
    "indonesian": "Kapan saya menerima tagihan, dan apa yang harus saya lakukan jika itu tidak datang?",
    "italian": "Quando ricevo il conto delle spese, e cosa devo fare se non arriva?",
    "norwegian": "Når får jeg regningen, og hva skal jeg gjøre hvis den ikke kommer til meg?",
    "portuguese": "Quando é que eu recebo a conta da casa, e o que faço se não vem?",
    "romanian": "Când primesc factura de la proprietar și ce trebuie să fac dacă nu vine?",
    "russian": "Когда я получу счёт от хозяина квартиры?",
    "spanish": "¿Cuándo recibo la cuenta de los gastos y qué hago si no llega?",
    "swedish": "När får jag räkningen, och vad ska jag göra om den inte kommer?",
    "tamil": "வீட்டு உரிமையாளரிடமிருந்து கணக்கு எப்போது வரும்?",
    "turkish": "Bu hesap bana ne zaman gelir ve gelmezse ne için beklerim?",
}


def test_language_is_detected_from_one_sentence() -> None:
    assert {language: language_of(text) for language, text in SENTENCES.items()} == {name: name for name in LANGUAGES}


@pytest.mark.parametrize(
    "text",
    [
        "When do I get the bill, and what do I do if it does not come?",
        "The man said he was in die Hard, and the war was not an option for me.",
        "I ordered a croissant and a café au lait at the place near the station.",
    ],
)
def test_english_with_foreign_words_is_english(text: str) -> None:
    assert language_of(text) == ENGLISH
    assert languages_of({"A": text}) == {}


@pytest.mark.parametrize(
    "text",
    [
        "",
        "ok",
        "42",
        "契約書を確認してください",
        "def main() -> None:\n    return None",
        "Docker Compose",
        "a b c d e f g h",
    ],
)
def test_text_without_clear_language_counts_as_english(text: str) -> None:
    assert languages_of({"A": text, "B": text}) == {}


def test_code_does_not_hide_language_around_it() -> None:
    code = "```python\nfor the_item in items:\n    if it is not None and it in this: do(it)\n```"
    assert language_of(f"{code}\n{SENTENCES['german']}\n{code}") == "german"


def test_question_and_answer_have_languages_of_their_own() -> None:
    texts = {"A": SENTENCES["german"], "B": "You get it within twelve months of the end of the year, and not later."}
    assert languages_of(texts) == {"A": "german"}


def test_short_text_takes_language_of_other_columns() -> None:
    assert languages_of({"A": "Mietvertrag?", "B": SENTENCES["german"]}) == {"A": "german", "B": "german"}


def test_configuration_is_named_after_language() -> None:
    assert configuration_of("") == "convmemory"
    assert configuration_of("german") == "convmemory_german"


@pytest.mark.parametrize(
    ("word", "parts"),
    [
        ("Mietvertrag", {"Miet", "vertrag"}),
        ("Krankenversicherung", {"Kranken", "versicherung"}),
        ("Betriebskostenabrechnung", {"Betriebskosten", "abrechnung", "rechnung"}),
        ("Blattläuse", {"Blatt", "läuse"}),
    ],
)
def test_compounds_are_parted(word: str, parts: set[str]) -> None:
    assert parts <= set(parts_of_compounds(f"der {word}.", "german"))


def test_short_words_and_other_languages_are_not_parted() -> None:
    assert list(parts_of_compounds("Vertrag und Miete", "german")) == []
    assert list(parts_of_compounds("Mietvertrag", "")) == list(parts_of_compounds("Mietvertrag", "spanish")) == []
    assert all(len(part) >= 4 for part in parts_of_compounds("Autobahnraststätte", "german"))


@pytest.mark.slow
def test_compound_cache_is_bounded() -> None:
    for start in range(0, 3 * CACHED_WORDS, CACHED_WORDS // 2):
        words = ("wort" + "".join(chr(97 + int(digit)) for digit in str(n)) for n in range(start, start + 15_000))
        list(parts_of_compounds(" ".join(words), "german"))
    assert len(_patterns_of("german").cache) <= CACHED_WORDS


def test_arabic_words_have_one_stem_with_and_without_what_is_written_before_them() -> None:
    for words in ("عقد العقد والعقد بالعقد للعقد", "قطة القطة والقطة", "سيارة السيارة سيارات والسيارات"):
        assert len(set(stems_of_arabic(words))) == 1, words
    assert list(stems_of_arabic("plain words و")) == []


def test_pairs_are_those_of_scripts_without_spaces() -> None:
    assert list(pairs_of("賃貸契約 on 水")) == ["賃貸", "貸契", "契約"]
    assert list(pairs_of("สวัสดี"))[:2] == ["สว", "วั"]
    assert list(pairs_of("plain words, ¿verdad?")) == []
