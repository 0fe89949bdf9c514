"""Words of other languages are found as their languages inflect and compound them, after an upgrade, too."""

from typing import Any

import pytest

from convmemory.accounts.callers import Caller
from convmemory.conversations.models import Conversation
from search.adapters.conversations import index_conversation
from search.indexing.packing import pack_again
from search.indexing.sweeping import sources_to_index
from search.models import Item, PassageBlock, PostingBlock, Source
from search.query import SearchQuery
from search.retrieval.prepared import PreparedQuery
from search.searching import search
from tests.factories import exchange, make_conversation, make_user
from tests.support.queue import drop_all

pytestmark = pytest.mark.django_db

EGGS = ("How long do I boil an egg? I like it soft.", "Six minutes is right. Cool it under cold water after.")
LEASE = (
    "Was muss ich beachten, bevor ich den Mietvertrag unterschreibe?",
    "Die Kaution darf höchstens drei Nettokaltmieten betragen, und die Häuser müssen bewohnbar sein.",
)
RENT = ("¿Qué dice el contrato de alquiler sobre los gatos?", "No prohíbe los animales, pero hay que avisar al casero.")
JAPANESE = ("賃貸契約書には何が書いてありますか。", "敷金と家賃が書いてあります。猫は禁止です。")
ARABIC = ("ماذا يقول عقد الإيجار عن القطط؟", "لا يمنع الحيوانات، لكن يجب أن تخبر المالك بالكتابة.")
THAI = ("สัญญาเช่าเขียนว่าอย่างไร", "ต้องจ่ายเงินมัดจำสองเดือน")


def indexed(owner: Any, *pairs: tuple[str, str]) -> Conversation:
    conversation = make_conversation(owner, exchange(*pairs))
    index_conversation(conversation_id=conversation.pk)
    drop_all()
    return conversation


def found(owner: Any, text: str, *, has_operators: bool = False) -> list[int]:
    query = SearchQuery(text=text, mode="full_text", has_operators=has_operators)
    return [hit.object_id for hit in search(caller=Caller.of(owner), query=query).hits]


def prepared(owner: Any, text: str) -> PreparedQuery:
    return PreparedQuery.of(owner.pk, SearchQuery(text=text, mode="full_text")).looked_up()


@pytest.mark.parametrize(
    ("said", "query"),
    [
        (LEASE, "Vertrag"),
        (LEASE, "Verträge"),
        (LEASE, "Miete"),
        (LEASE, "Kaltmiete"),
        (LEASE, "Haus"),
        (RENT, "contratos"),
        (RENT, "prohibir"),
        (JAPANESE, "契約"),
        (JAPANESE, "契約書"),
        (JAPANESE, "敷金"),
        (ARABIC, "عقد"),
        (ARABIC, "والقطط"),
        (ARABIC, "والعقد"),
        (ARABIC, "الحيوان"),
        (ARABIC, "كتابة"),
        (THAI, "มัดจำ"),
    ],
)
def test_inflected_and_compound_words_are_found_in_each_language(said: tuple[str, str], query: str) -> None:
    owner = make_user()
    indexed(owner, EGGS)
    conversation = indexed(owner, EGGS, said)
    assert found(owner, query) == [conversation.pk]


def test_hits_are_marked_in_scripts_without_spaces() -> None:
    owner = make_user()
    indexed(owner, JAPANESE)
    (hit,) = search(caller=Caller.of(owner), query=SearchQuery(text="契約書", mode="full_text")).hits
    assert [hit.passage[start:end] for start, end in hit.marks] == ["契約書"]


def test_phrases_are_found_in_every_language() -> None:
    owner = make_user()
    lease, eggs = indexed(owner, LEASE), indexed(owner, EGGS)
    assert found(owner, '"drei Nettokaltmieten" Kaution', has_operators=True) == [lease.pk]
    assert found(owner, '"six minutes" egg', has_operators=True) == [eggs.pk]
    assert found(owner, "egg Kaution -Nettokaltmieten", has_operators=True) == [eggs.pk]


def test_frequent_words_of_querys_language_are_not_looked_up() -> None:
    owner = make_user()
    indexed(owner, LEASE)
    german = prepared(owner, "was muss ich über die Kaution wissen")
    assert [word.written for word in german.words if not word.is_stop_word] == ["kaution", "wissen"]
    english = prepared(owner, "people who die in a war")
    assert [word.written for word in english.words if not word.is_stop_word] == ["people", "die", "war"]


def test_languages_of_other_owners_do_not_change_query() -> None:
    owner, other = make_user(), make_user()
    for person in (owner, other):
        indexed(person, EGGS)
    before = prepared(owner, "boiled eggs")
    indexed(other, LEASE, RENT)
    after = prepared(owner, "boiled eggs")
    assert (after.words, after.languages) == (before.words, before.languages)
    assert before.languages == ()
    assert not any(word.also for word in before.words)
    assert prepared(other, "boiled eggs").languages == ("german", "spanish")


def test_english_text_is_not_read_as_another_language_has_its_words() -> None:
    """German makes "long" of "longest" and "slow" of "slower": two words of an English text."""
    owner, alone = make_user(), make_user()
    slow = ("Why is the build so slow?", "It has a long list of files to read, and a small disk.")
    for person in (owner, alone):
        indexed(person, EGGS)
        indexed(person, slow)
    lease = indexed(owner, LEASE)
    assert found(alone, "longest smaller slower") == []
    assert found(owner, "longest smaller slower") == []
    assert found(owner, "Häuser") == [lease.pk]


def as_before(owner: Any, *conversations: Conversation) -> None:
    """The conversations as the version before knew them: every word as English has it."""
    sources = Source.objects.filter(archive_id=owner.pk, object_id__in=[each.pk for each in conversations])
    sources.update(layout=Source.LAYOUT - 1, languages="")


def test_after_upgrade_sweep_has_other_languages_indexed_anew_and_embeds_nothing(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    owner = make_user()
    monkeypatch.setattr("search.vectors.texts.languages_of", lambda texts: {})
    lease, eggs = indexed(owner, LEASE), indexed(owner, EGGS)
    monkeypatch.undo()
    as_before(owner, lease, eggs)
    blocks = set(PostingBlock.objects.filter(archive_id=owner.pk).values_list("pk", flat=True))
    embedded = set(PassageBlock.objects.filter(archive_id=owner.pk).values_list("pk", flat=True))
    words = dict(Item.objects.filter(source__object_id=eggs.pk).values_list("pk", "spoken"))
    assert found(owner, "Vertrag") == []
    assert found(owner, "Kaution") == [lease.pk]
    assert found(owner, "eggs") == [eggs.pk]
    assert set(Source.objects.filter(pk__in=sources_to_index(limit=9)).values_list("object_id", flat=True)) == {
        lease.pk,
        eggs.pk,
    }
    for conversation in (lease, eggs):
        index_conversation(conversation_id=conversation.pk)
    assert found(owner, "Vertrag") == [lease.pk]
    assert found(owner, "eggs") == [eggs.pk]
    assert sources_to_index(limit=9) == []
    assert set(PassageBlock.objects.filter(archive_id=owner.pk).values_list("pk", flat=True)) == embedded
    assert dict(Item.objects.filter(source__object_id=eggs.pk).values_list("pk", "spoken")) == words
    kept = set(PostingBlock.objects.filter(archive_id=owner.pk, source__object_id=eggs.pk).values_list("pk", flat=True))
    assert kept <= blocks


def test_words_of_old_layouts_are_still_found_meanwhile() -> None:
    owner = make_user()
    lease, eggs = indexed(owner, LEASE), indexed(owner, EGGS)
    pack_again(list(Source.objects.filter(archive_id=owner.pk, object_id=eggs.pk).values_list("pk", flat=True)))
    assert found(owner, "boiled eggs") == [eggs.pk]
    assert found(owner, "Vertrag") == [lease.pk]
