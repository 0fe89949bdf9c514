"""Words are found however they are typed: without accents, decomposed, in capitals, with or without separators."""

import unicodedata
from collections.abc import Iterator
from itertools import islice, product
from pathlib import Path

import pytest
from django.contrib.auth.models import User
from django.db import connection

from convmemory.accounts.callers import Caller
from convmemory.ops.doctor.rows_area import check_behind
from search.adapters.conversations import index_conversation
from search.indexing.packing import pack_again
from search.indexing.sweeping import sources_to_index
from search.models import PassageBlock, Source
from search.pipeline import rank_items
from search.query import SearchQuery
from search.retrieval.candidates import split_keys
from search.searching import SearchResults, search
from tests.factories import exchange, make_conversation, make_user
from tests.support.queue import drop_all

pytestmark = pytest.mark.django_db

WORDS = Path(__file__).parents[2] / "fixtures" / "words" / "languages.txt"
WORDS_OF_TURN = 2
TOP = 3
# What people type who lack the key of a letter that does not decompose.
ASCII = str.maketrans({
    "ø": "o", "ł": "l", "đ": "d", "ð": "d", "æ": "ae", "œ": "oe", "\u0131": "i", "ß": "ss", "þ": "th",
    "Ø": "O", "Ł": "L", "Đ": "D", "Æ": "AE", "Œ": "OE", "Þ": "TH", "İ": "I",
})  # fmt: skip
GERMAN = str.maketrans({"ä": "ae", "ö": "oe", "ü": "ue", "ß": "ss", "Ä": "Ae", "Ö": "Oe", "Ü": "Ue"})


def words_of_languages() -> list[tuple[str, str]]:
    lines = [line for line in WORDS.read_text(encoding="utf-8").splitlines() if not line.startswith("#")]
    return [
        (language, word) for line in lines for language, _, words in [line.partition(":")] for word in words.split()
    ]


def without_marks(word: str, *, kept: str = "") -> str:
    decomposed = unicodedata.normalize("NFD", word)
    is_optional = unicodedata.category
    plain = "".join(sign for sign in decomposed if is_optional(sign) != "Mn" or sign in kept)
    return unicodedata.normalize("NFC", plain).translate(ASCII)


def ways(language: str, word: str) -> Iterator[str]:
    """Yield the ways in which people type a word: at most five."""
    yield word
    yield unicodedata.normalize("NFD", word)
    if language == "japanese":
        yield word.translate({0x30FC: 0xFF70})
    elif language == "hindi":
        yield unicodedata.normalize("NFC", unicodedata.normalize("NFD", word).replace("\u093c", ""))
    elif language in ("hebrew", "arabic"):
        yield without_marks(word, kept="\u0653\u0654\u0655")
    elif language != "korean":
        yield without_marks(word, kept="\u0306" if language == "russian" else "")
        yield f"{word[:2]}\u00ad{word[2:]}".upper() if language == "turkish" else word.upper()
        if language == "german":
            yield word.translate(GERMAN)
        else:
            yield f"{word[:2]}\u00ad{word[2:]}"


@pytest.fixture
def owner() -> User:
    """A user with one turn for each few words, stored composed and decomposed by turns."""
    person = make_user()
    words = [word for _, word in words_of_languages()]
    turns = [words[at : at + WORDS_OF_TURN] for at in range(0, len(words), WORDS_OF_TURN)]
    said = [
        unicodedata.normalize("NFD" if number % 2 else "NFC", f"Note {number}: {', '.join(turn)}.")
        for number, turn in enumerate(turns)
    ]
    make_conversation(person, exchange(*((text, "Noted.") for text in said)))
    return person


def missed(owner: User, *, every: int) -> tuple[list[str], int]:
    """Return the ways, typed by words, that do not find their turn among the first; and how many were tried."""
    turns: dict[str, set[int]] = {}
    for at, (_, word) in enumerate(words_of_languages()):
        turns.setdefault(word, set()).add(at // WORDS_OF_TURN)
    typed = [(word, way) for language, word in words_of_languages() for way in dict.fromkeys(ways(language, word))]
    lost = []
    for word, way in typed[::every]:
        ranked = rank_items(archive_id=owner.pk, query=SearchQuery(text=way, mode="full_text"))
        _, best = split_keys(ranked.table.keys[ranked.order[:TOP]])
        if turns[word].isdisjoint(best):
            lost.append(f"{word}: {way}")
    return lost, len(typed[::every])


def test_words_of_twenty_languages_are_found_as_they_are_typed(owner: User) -> None:
    lost, tried = missed(owner, every=97)
    assert not lost, tried


@pytest.mark.slow
def test_nearly_all_words_are_found_in_all_ways(owner: User) -> None:
    lost, tried = missed(owner, every=1)
    print(tried, lost)
    assert len(words_of_languages()) >= 400
    assert len(lost) <= 0.01 * tried, lost


def results(owner: User, text: str, *, has_operators: bool = False) -> SearchResults:
    query = SearchQuery(text=text, mode="full_text", has_operators=has_operators)
    return search(caller=Caller.of(owner), query=query)


def found(owner: User, text: str, *, has_operators: bool = False) -> list[int]:
    return [hit.number for hit in results(owner, text, has_operators=has_operators).hits]


@pytest.mark.parametrize(
    ("typed", "other"),
    [
        ("resume", "résumé"),
        ("résumé", "resume"),
        ("Göteborg", "Goteborg"),
        ("Goteborg", "Göteborg"),
        ("Malmö", "Malmo"),
        ("träd", "trad"),
        ("får", "far"),
        ("schwül", "schwul"),
        ("año", "ano"),
        ("łaska", "laska"),
        ("pêche", "péché"),
        ("reentrant", "re-entrant"),
        ("re-entrant", "reentrant"),
        ("wifi", "wi-fi"),
        ("Ångström", "Angstrom"),
        ("0301234567", "030 1234567"),
    ],
)
def test_typed_form_comes_before_folded_one(typed: str, other: str) -> None:
    owner = make_user()
    make_conversation(
        owner,
        exchange((f"About {other} and {other} again.", "Yes."), (f"Now {typed}, at last.", "Yes."), ("No.", "No.")),
    )
    assert found(owner, typed) == [1, 0]


def test_stop_word_is_not_found_by_word_that_differs_by_its_accent() -> None:
    owner = make_user()
    make_conversation(
        owner,
        exchange(
            ("Le bruit du train est dans la rue et il est tard.", "Oui."),
            ("Le retard est dû aux travaux et il est dans la presse.", "Oui."),
        ),
    )
    assert found(owner, "dû") == [1]
    assert found(owner, "du") == [0, 1]


@pytest.mark.parametrize(
    ("stored", "typed", "marked"),
    [
        ("We fixed the re-entrant lock.", "reentrant", ["re-entrant"]),
        ("We fixed the reentrant lock.", "re-entrant", ["reentrant"]),
        ("The wi-fi is down.", "wifi", ["wi-fi"]),
        ("Pay to DE89 3704 0044 0532 0130 00 soon.", "DE89370400440532013000", ["DE89 3704 0044 0532 0130 00"]),
        ("Pay to DE89370400440532013000 soon.", "DE89 3704 0044 0532 0130 00", ["DE89370400440532013000"]),
        ("Call +49 (0)30 1234-567 now.", "0301234567", ["+49 (0)30 1234-567"]),
        ("Call +49 30 1234567 now.", "+49301234567", ["+49 30 1234567"]),
        ("Call 030 1234567 now.", "+49 30 1234567", ["030 1234567"]),
        ("Ask Mr O'Brien.", "obrien", ["O'Brien"]),
        ("Une crème brûlée, vite.", '"creme brulee"', ["crème brûlée"]),
        ("Une creme brulee, vite.", '"crème brûlée"', ["creme brulee"]),
        ("Try mi\u00adcro\u00adcode.", "microcode", ["mi\u00adcro\u00adcode"]),
        ("An e\ufb03cient way.", "efficient", ["e\ufb03cient"]),
        ("The cafe\u0301 is open.", "café", ["cafe\u0301"]),
        ("Room \u0661\u0662\u0663\u0664.", "1234", ["\u0661\u0662\u0663\u0664"]),
        ("日本の\uff21\uff22\uff23\uff11番サーバー", "ABC1", ["\uff21\uff22\uff23\uff11"]),
    ],
)
def test_marks_are_those_of_original_text(stored: str, typed: str, marked: list[str]) -> None:
    owner = make_user()
    make_conversation(owner, exchange((stored, "Yes."), ("Nothing of this.", "No.")))
    hits = results(owner, typed, has_operators=True).hits
    assert [hit.number for hit in hits] == [0]
    assert [hits[0].passage[start:end] for start, end in hits[0].marks] == marked


def test_words_of_other_owners_are_not_found_by_folded_forms() -> None:
    make_conversation(make_user(), exchange(("Une crème brûlée au wi-fi.", "Oui.")))
    owner = make_user()
    make_conversation(owner, exchange(("Nothing.", "No.")))
    assert [found(owner, typed) for typed in ("creme", "brulee", "wifi", '"creme brulee"')] == [[]] * 4


def test_archives_of_earlier_version_are_searched_as_before_and_indexed_again_by_the_worker() -> None:
    owner = make_user()
    conversation = make_conversation(owner, exchange(("Une crème brûlée au wi-fi.", "Oui."), ("Plain words.", "Yes.")))
    index_conversation(conversation_id=conversation.pk)
    sources = Source.objects.filter(archive_id=owner.pk)
    # As version 4 stored them.
    with connection.cursor() as cursor:
        words = {0: "Une crème brûlée au wi-fi.", 1: "Plain words."}
        for number, text in words.items():
            cursor.execute(
                "UPDATE search_item SET spoken = setweight(to_tsvector('convmemory', %s), 'A') WHERE number = %s"
                " AND source_id = %s",
                [text, number, sources.get().pk],
            )
    pack_again([sources.get().pk])
    sources.update(layout=Source.LAYOUT - 1)
    vectors = set(PassageBlock.objects.filter(archive_id=owner.pk).values_list("pk", flat=True))
    assert found(owner, "brûlée") == [0]
    assert found(owner, "plain") == [1]
    assert [found(owner, typed) for typed in ("creme", "wifi", '"creme brulee"')] == [[], [], []]
    drop_all()
    assert sources_to_index(limit=9) == [sources.get().pk]
    assert [finding.id for finding in check_behind()] == ["rows.older-layout"]
    index_conversation(conversation_id=conversation.pk)
    assert [found(owner, typed, has_operators=True) for typed in ("creme", "wifi", '"creme brulee"')] == [[0], [0], [0]]
    assert found(owner, "plain") == [1]
    assert sources.get().layout == Source.LAYOUT
    assert list(check_behind()) == []
    assert set(PassageBlock.objects.filter(archive_id=owner.pk).values_list("pk", flat=True)) == vectors


@pytest.mark.slow
@pytest.mark.parametrize("sign", ["\u0451", "\ufdfa", "a-"])
def test_message_of_distinct_words_with_this_sign_is_stored(sign: str) -> None:
    owner = make_user()
    letters = map(chr, range(0x430, 0x444))
    words = islice(product(letters, repeat=4), 60_000)
    text = " ".join(f"{a}{b}{sign}{c}{d}" for a, b, c, d in words)
    make_conversation(owner, exchange((text, "Yes."), ("No.", "No.")))
    assert found(owner, "no") == [1]
