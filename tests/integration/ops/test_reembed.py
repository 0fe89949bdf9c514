"""`manage.py reembed`: a second space is built, one switch, nothing computed twice, nothing lost."""

import re
from collections.abc import Iterator
from dataclasses import replace
from datetime import timedelta
from io import StringIO
from pathlib import Path
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.core.management import CommandError, call_command
from django.db.models import F
from django.test import override_settings
from django.utils import timezone
from pytest_django import Settings

from convmemory.accounts.callers import Caller
from convmemory.conversations.messages import ingest
from convmemory.conversations.messages.drafts import TurnDraft
from convmemory.conversations.models import Conversation
from convmemory.embeddings import spaces
from convmemory.embeddings.models import CachedVector, EmbeddingSpace
from search.adapters.conversations import index_conversation
from search.indexing.active import IndexResult, _index_from
from search.indexing.status import index_status
from search.indexing.sweeping import find_damage, mark_damage, sources_to_index
from search.indexing.switching import NotBuilt, switch_to
from search.models import Item, ItemEmbedding, Source, SourceIndex
from search.searching import SearchQuery, search
from search.tasks import index
from tests.factories import assistant_says, exchange, make_conversation, make_user, source_id, user_says
from tests.support.onnx_models import SHAPES, write_model
from tests.support.openai_server import running_endpoint
from tests.support.passages import stored_passages
from tests.support.tiny_bert import write_tiny_bert

pytestmark = pytest.mark.django_db(transaction=True)

PAIRS = [("the cat sat?", "on the mat."), ("why, cat?", "the mat, the mat."), ("a b c", "d e f.")]


@pytest.fixture(autouse=True)
def models(tmp_path: Path, settings: Settings) -> Iterator[dict[str, str]]:
    """Two tiny models of 32 and 64 dimensions; the settings name the first."""
    paths = {
        "old": str(write_tiny_bert(tmp_path / "old", seed=1)),
        "new": str(write_tiny_bert(tmp_path / "new", seed=2, dimensions=64)),
    }
    settings.EMBEDDING_MODEL_PATH = paths["old"]
    yield paths
    spaces._opened.reset()


@pytest.fixture
def owner() -> User:
    user = make_user()
    for number in range(3):
        conversation = make_conversation(user, exchange(*PAIRS, (f"cat {number}?", f"mat {number}.")))
        index_conversation(conversation_id=conversation.pk)
    return user


def reembed(*arguments: str) -> str:
    out = StringIO()
    workers = () if {"--dry-run", "--prune", "--cancel"} & set(arguments) else ("--workers", "1")
    call_command("reembed", *arguments, *workers, stdout=out, stderr=StringIO())
    return out.getvalue()


def computed(output: str) -> int:
    found = re.search(r"([\d,]+) embeddings computed", output)
    assert found
    return int(found[1].replace(",", ""))


def rows(space: EmbeddingSpace) -> tuple[int, int, int]:
    passages = stored_passages(is_kept=None, space=space)
    with_tokens = [passage for passage in passages if passage.tokens]
    return ItemEmbedding.objects.filter(space=space).count(), len(passages), len(with_tokens)


def found_by(user: User, text: str = "the cat sat") -> list[tuple[int, int]]:
    hits = search(caller=Caller.of(user), query=SearchQuery(text=text)).hits
    assert hits
    assert all(hit.similarity and 0 < hit.similarity <= 1 for hit in hits)
    return [(hit.object_id, hit.number) for hit in hits]


def test_reembed_fills_new_space_and_computes_nothing_twice(owner: User, models: dict[str, str]) -> None:
    old, before = spaces.active_space(), rows(spaces.active_space())
    output = reembed("--model", models["new"])
    new = spaces.active_space()
    assert (new.dimensions, new.location, new.is_building) == (64, models["new"], False)
    assert rows(new) == before == rows(old)
    assert computed(output) > 0
    assert len(found_by(owner)) == 12
    assert index_status(caller=Caller.of(owner)).pending == 0
    assert sources_to_index(limit=10) == []
    assert SourceIndex.objects.filter(space=new, indexed_version=F("source__version")).count() == 3
    assert f"EMBEDDING_MODEL_PATH={models['new']}" in output
    assert computed(reembed("--model", models["new"])) == 0
    assert computed(reembed()) == 0  # back to the model of the settings, whose rows are still there
    assert spaces.active_space() == old


def count_found(user: User, text: str = "the cat sat") -> int:
    """Return the number of turns that a search finds; the order is random as the weights are."""
    return len(search(caller=Caller.of(user), query=SearchQuery(text=text)).hits)


@pytest.mark.slow
@pytest.mark.parametrize("name", SHAPES)
def test_graph_of_any_shape_takes_over_and_hands_back(owner: User, name: str, tmp_path: Path) -> None:
    old, before = spaces.active_space(), rows(spaces.active_space())
    folder = write_model(tmp_path / "graph", SHAPES[name])
    reembed("--model", str(folder))
    new = spaces.active_space()
    assert (new.model.split("@")[0], new.location) == ("graph", str(folder))
    assert rows(new)[0] >= before[0]  # a model that reads fewer tokens has more chunks of a turn
    assert rows(new)[1] == rows(new)[2] == before[1]  # token vectors with every passage
    assert count_found(owner) == 12
    spaces._opened.reset()  # as in a process that starts afterwards, whose settings name the old model
    assert count_found(owner, "why, cat?") == 12
    reembed()
    assert spaces.active_space() == old


def test_model_may_be_cut_to_fewer_dimensions(owner: User, tmp_path: Path) -> None:
    folder = write_model(tmp_path / "graph", SHAPES["XLM-R"])
    output = reembed("--model", str(folder), "--dimensions", "16")
    cut = spaces.active_space()
    assert cut.dimensions == 16
    assert "EMBEDDING_DIMENSIONS=16" in output
    assert count_found(owner) == 12
    reembed("--model", str(folder))
    assert spaces.active_space().dimensions == 32  # the same model with all of them is another space
    with pytest.raises(CommandError, match="has 32 dimensions, not 64"):
        reembed("--model", str(folder), "--dimensions", "64")


def test_graph_that_gives_no_token_vectors_is_searched_without(owner: User, tmp_path: Path) -> None:
    shape = replace(SHAPES["CLS, normalised"], outputs=("sentence_embedding",))
    graph = str(write_model(tmp_path / "graph", shape))
    with pytest.raises(CommandError, match="provides no token vectors: name another folder as the token model"):
        reembed("--model", graph, "--token-model", graph)
    reembed("--model", graph, "--token-model", "none")
    passages, tokens = rows(spaces.active_space())[1:]
    assert passages > 0
    assert tokens == 0
    assert count_found(owner) == 12


@pytest.mark.slow
def test_token_vectors_come_from_token_model_of_space(owner: User, models: dict[str, str], settings: Settings) -> None:
    found = {}
    for name in ("all-MiniLM-L6-v2", models["old"]):
        output = reembed("--model", models["new"], "--token-model", name)
        assert f"EMBEDDING_TOKEN_MODEL={name}" in output
        space = spaces.active_space()
        assert len(space.token_mean) == (4 * space.token_dimensions if space.is_centred else 0)
        assert count_found(owner) == 12
        found[space.token_model.split("@")[0], space.token_dimensions, space.is_centred] = space
        codes = [passage.tokens for passage in stored_passages(is_kept=None, space=space)]
        assert {len(code) % (space.token_dimensions // 8) for code in codes} == {0}
        assert any(codes)
    assert list(found) == [("all-MiniLM-L6-v2", 384, False), ("old", 32, True)]
    first, second = (
        {passage.content_hash: passage.code for passage in stored_passages(is_kept=None, space=space)}
        for space in found.values()
    )
    assert first == second  # the sentence model is the same
    settings.EMBEDDING_MODEL_PATH, settings.EMBEDDING_TOKEN_MODEL = models["new"], models["old"]
    assert spaces.configured_space() == space


@pytest.mark.slow
def test_endpoint_is_searched_by_token_vectors_of_default_model(owner: User) -> None:
    with running_endpoint() as endpoint:
        arguments = ("--provider", "openai", "--model", "some", "--base-url", endpoint.url, "--dimensions", "8")
        user, told = make_user(), exchange(*[(f"Note {n}?", f"Invoice {n} is due.") for n in range(8)])
        for messages in (told, exchange(("And the pets?", "The kitten ate some fish."))):
            index_conversation(conversation_id=make_conversation(user, messages).pk)
        with override_settings(EMBEDDING_API_KEY=endpoint.key, EMBEDDING_BASE_URL=endpoint.url):
            reembed(*arguments)
            sent = len(endpoint.requests)
            hits = search(caller=Caller.of(user), query=SearchQuery(text="feeding a cat")).hits
            assert hits[0].object_id == Conversation.objects.order_by("-pk")[0].pk
            assert "its vectors are copied" in reembed(*arguments, "--token-model", "none", "--dry-run")
            reembed(*arguments, "--token-model", "none")
        assert rows(spaces.active_space())[2] == 0
        texts = [text for body in endpoint.requests[sent:] for text in body["input"]]
        assert [text for text in texts if "kitten" in text] == []  # the endpoint's vectors are copied


def test_space_without_stored_prompts_is_opened_without_prompts(
    owner: User, models: dict[str, str], settings: Settings
) -> None:
    old = spaces.active_space()
    told = Path(models["old"]) / "config_sentence_transformers.json"
    told.write_text('{"prompts": {"query": "the cat ", "document": "a mat "}}')
    spaces._opened.reset()
    embedder = spaces.embedder_for(old)
    assert embedder.card.model == old.model
    assert spaces.configured_space().model != old.model  # with its prompts it is another one
    assert count_found(owner) == 12


def test_new_model_is_found_again_though_settings_name_old_one(owner: User, models: dict[str, str]) -> None:
    reembed("--model", models["new"])
    spaces._opened.reset()  # as in a process that starts afterwards
    assert spaces.embedder_for(spaces.active_space()).card.dimensions == 64
    conversation = make_conversation(owner, exchange(("mat?", "cat.")))
    index(source_id(conversation), archive_id=conversation.archive_id)
    assert ItemEmbedding.objects.get(source__object_id=conversation.pk).space == spaces.active_space()
    assert (conversation.pk, 0) in found_by(owner, "mat? cat.")


def test_new_turns_during_build_are_embedded_in_both_spaces(owner: User, models: dict[str, str]) -> None:
    first = Conversation.objects.order_by("pk")[0]
    reembed("--model", models["new"], "--conversation", str(first.pk))
    building = spaces.building_space()
    assert building
    assert rows(building)[0] == 4
    assert spaces.active_space() != building
    ingest.append_messages(
        caller=Caller.of(owner), conversation_id=first.pk, drafts=[user_says("new?"), assistant_says("yes.")]
    )
    arrived = make_conversation(owner, exchange(("the mat?", "a cat.")))
    for conversation in (first, arrived):
        index(source_id(conversation), archive_id=conversation.archive_id)
    assert rows(building)[0] == 4 + 1 + 1
    assert ItemEmbedding.objects.filter(space=spaces.active_space()).count() == 12 + 1 + 1
    reembed("--model", models["new"])
    assert spaces.active_space() == building
    assert rows(building)[0] == 14


def test_new_turns_are_embedded_although_old_model_is_missing(
    owner: User, models: dict[str, str], settings: Settings
) -> None:
    reembed("--model", models["new"], "--conversation", "0")
    settings.EMBEDDING_MODEL_PATH = ""
    EmbeddingSpace.objects.filter(is_active=True).update(location="")
    conversation = make_conversation(owner, exchange(("the mat?", "a cat.")))
    with pytest.raises(Exception, match="model cannot be had"):
        index(source_id(conversation), archive_id=conversation.archive_id)
    reembed("--model", models["new"])
    assert (
        index_status(caller=Caller.of(owner)).pending == 4 - 3
    )  # the new one: the sweep brings its documents up to date
    index(source_id(conversation), archive_id=conversation.archive_id)
    assert (conversation.pk, 0) in found_by(owner, "the mat? a cat.")


def test_switch_is_refused_until_all_sources_are_in_new_space(owner: User, models: dict[str, str]) -> None:
    reembed("--model", models["new"], "--user", owner.username)
    building = spaces.building_space()
    assert building
    first = Conversation.objects.order_by("pk")[0]
    ingest.append_messages(
        caller=Caller.of(owner), conversation_id=first.pk, drafts=[user_says("new?"), assistant_says("yes.")]
    )
    index_conversation(conversation_id=first.pk)
    with pytest.raises(NotBuilt) as refusal:
        switch_to(building)
    assert refusal.value.source_ids == [source_id(first)]
    assert spaces.active_space() != building
    reembed("--model", models["new"])
    assert spaces.active_space() == building


def append_turns(owner: User, conversation: Conversation, *questions: str) -> None:
    drafts = [draft for question in questions for draft in (user_says(question), assistant_says("a mat."))]
    ingest.append_messages(caller=Caller.of(owner), conversation_id=conversation.pk, drafts=drafts)


def test_turns_that_waited_at_switch_are_indexed_though_more_arrive(owner: User, models: dict[str, str]) -> None:
    reembed("--model", models["new"], "--user", owner.username)
    building = spaces.building_space()
    assert building
    first = Conversation.objects.order_by("pk")[0]
    append_turns(owner, first, "the first that waits?", "the second?")
    switch_to(building)
    append_turns(owner, first, "after the switch?")
    index_conversation(conversation_id=first.pk)
    embedded = ItemEmbedding.objects.filter(source__object_id=first.pk, space=building)
    assert sorted(embedded.values_list("item_number", flat=True)) == list(range(7))
    assert Item.objects.filter(source__object_id=first.pk).count() == 7
    untouched = SourceIndex.objects.filter(space=building).exclude(source__object_id=first.pk)
    assert list(untouched.values_list("dirty_from", flat=True)) == [None, None]


def test_indexing_begun_before_switch_does_not_mark_new_space(owner: User, models: dict[str, str]) -> None:
    old = spaces.active_space()
    reembed("--model", models["new"], "--user", owner.username)
    building = spaces.building_space()
    assert building
    first = Conversation.objects.order_by("pk")[0]
    append_turns(owner, first, "one that waits?")
    before = SourceIndex.objects.get(source__object_id=first.pk, space=old)
    switch_to(building)
    source = Source.objects.get(pk=source_id(first))
    assert _index_from(source, before, old, IndexResult(), float("inf"))
    state = SourceIndex.objects.get(source=source, space=building)
    assert (state.indexed_version < source.version, state.dirty_from) == (True, 0)
    index_conversation(conversation_id=first.pk)
    assert ItemEmbedding.objects.filter(source__object_id=first.pk, space=building).count() == 5


def test_marking_damage_forgets_no_change_that_was_noted_meanwhile(owner: User) -> None:
    first = Conversation.objects.order_by("pk")[0]
    ItemEmbedding.objects.filter(source__object_id=first.pk, item_number=3).delete()
    found = find_damage(spaces.active_space(), ("missing",))
    ingest.put_turn(caller=Caller.of(owner), conversation_id=first.pk, turn=TurnDraft(4, "new?", "yes."))
    SourceIndex.objects.filter(source__object_id=first.pk).update(dirty_from=1)
    assert mark_damage(found, spaces.active_space()) == 1
    assert SourceIndex.objects.get(source__object_id=first.pk).dirty_from == 1
    index_conversation(conversation_id=first.pk)
    assert mark_damage(found, spaces.active_space()) == 1
    assert SourceIndex.objects.get(source__object_id=first.pk).dirty_from == 3


def test_changed_turn_is_stale_in_new_space(owner: User, models: dict[str, str]) -> None:
    reembed("--model", models["new"], "--user", owner.username)
    first = Conversation.objects.order_by("pk")[0]
    ingest.append_messages(
        caller=Caller.of(owner), conversation_id=first.pk, drafts=[assistant_says("one more thing.")]
    )
    index_conversation(conversation_id=first.pk)
    output = reembed("--model", models["new"], "--only", "stale")
    assert "1 sources, 1 items embedded" in output
    assert "Only a part" in output


@pytest.mark.parametrize(
    ("only", "damage"),
    [
        ("missing", lambda rows: rows.filter(item_number=2).delete()),
        ("stale", lambda rows: rows.filter(item_number=2).update(content_hash=b"other")),
    ],
)
def test_damage_in_active_space_is_found_and_repaired(owner: User, only: str, damage: Any) -> None:
    damage(ItemEmbedding.objects.all())
    for other in {"missing", "stale", "failed"} - {only}:
        assert "0 sources, 0 items" in reembed("--only", other)
    assert "3 sources, 3 items to embed" in reembed("--only", only, "--dry-run")
    output = reembed("--only", only)
    assert "3 sources, 3 items embedded, 0 embeddings computed" in output  # from their passages
    assert ItemEmbedding.objects.filter(item_number=2).exclude(content_hash=b"other").count() == 3
    assert computed(reembed()) == 0


def test_failed_turns_are_tried_again(owner: User) -> None:
    ItemEmbedding.objects.filter(item_number=1).delete()
    Item.objects.filter(number=1).update(error="refused")
    SourceIndex.objects.filter(source=Source.objects.order_by("pk")[0]).update(error="down", attempts=5)
    reembed("--only", "failed")
    assert ItemEmbedding.objects.count() == 12
    assert not Item.objects.exclude(error="").exists()
    assert not SourceIndex.objects.exclude(error="").exists()


def test_scope_limits_what_is_embedded(owner: User, models: dict[str, str]) -> None:
    other = make_user()
    index_conversation(conversation_id=make_conversation(other, exchange(*PAIRS)).pk)
    Source.objects.filter(archive_id=other.pk).update(updated_at=timezone.now())
    yesterday = (timezone.now() - timedelta(days=1)).date().isoformat()
    assert "1 sources, 3 items" in reembed("--model", models["new"], "--since", yesterday, "--dry-run")
    reembed("--model", models["new"], "--user", other.username)
    built = SourceIndex.objects.filter(space__is_building=True)
    assert set(built.values_list("archive_id", flat=True)) == {other.pk}


def test_dry_run_counts_and_prices_and_writes_nothing(owner: User, models: dict[str, str]) -> None:
    output = reembed("--model", models["new"], "--dry-run")
    assert "3 sources, 12 items to embed." in output
    assert "costs nothing but time" in output
    assert re.search(r"At most \d+ texts with some \d+ tokens for 12 items", output)
    assert "US dollars" in reembed("--model", "text-embedding-3-small", "--dry-run")
    assert EmbeddingSpace.objects.count() == 1
    reembed("--model", models["new"], "--user", owner.username)
    assert "0 sources, 0 items to embed." in reembed("--model", models["new"], "--dry-run")


def test_pruning_deletes_old_space_and_leaves_new_one_whole(owner: User, models: dict[str, str]) -> None:
    old = spaces.active_space()
    reembed("--model", models["new"])
    before = rows(spaces.active_space())
    EmbeddingSpace.objects.filter(pk=old.pk).update(retired_at=timezone.now() - timedelta(hours=1))
    stored = rows(old)
    assert re.search(
        r"Will be deleted for good: local/old@.*, [1-9]\d* rows\nNothing was changed", reembed("--prune", "--dry-run")
    )
    with pytest.raises(CommandError, match=r"Nothing was deleted.*--yes"):
        reembed("--prune")
    assert rows(old) == stored
    assert re.search(r"\d+ rows of local/old@", reembed("--prune", "--yes"))
    assert rows(spaces.active_space()) == before
    assert not EmbeddingSpace.objects.filter(pk=old.pk).exists()
    assert not CachedVector.objects.exclude(space=spaces.active_space()).exists()
    assert "no space to prune" in reembed("--prune")
    assert found_by(owner)


def test_build_that_is_given_up_leaves_search_alone(owner: User, models: dict[str, str]) -> None:
    reembed("--model", models["new"], "--user", owner.username)
    with pytest.raises(CommandError, match=r"is being built already.*--cancel"):
        reembed("--model", "all-MiniLM-L6-v2")
    assert "Nothing was changed" in reembed("--cancel", "--dry-run")
    with pytest.raises(CommandError, match=r"Nothing was changed.*--yes"):
        reembed("--cancel")
    assert spaces.building_space()
    assert "no longer built" in reembed("--cancel", "--yes")
    with pytest.raises(CommandError, match="nothing to cancel"):
        reembed("--cancel")
    assert found_by(owner)


@pytest.mark.slow
def test_refusals_of_new_model_replace_old_after_switch(owner: User, models: dict[str, str]) -> None:
    reembed("--model", models["new"], "--user", owner.username)
    SourceIndex.objects.filter(source=Source.objects.order_by("pk")[0]).update(refused={"1": "too strange"})
    Item.objects.filter(number=0).update(error="refused by the old model")
    reembed("--model", models["new"])
    assert list(Item.objects.exclude(error="").values_list("number", "error")) == [(1, "too strange")]
