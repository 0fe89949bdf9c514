"""The pipeline takes further retrievers and rankers, one file each, and refuses those that do not fit together."""

from dataclasses import replace
from datetime import timedelta

import pytest

from convmemory.embeddings.models import EmbeddingSpace
from convmemory.embeddings.spaces import active_space
from search.adapters.conversations import index_conversation
from search.pipeline import PIPELINE, Pipeline, PipelineError, Rankers, rank_items
from search.query import SearchQuery
from search.retrieval.candidates import split_keys
from tests.factories import NEW_YEAR, assistant_says, exchange, make_conversation, make_user, source_id, user_says
from tests.integration.search.toy_ranker import SingleFeatureRanker
from tests.integration.search.toy_retriever import RECENCY, NewestRetriever

pytestmark = pytest.mark.django_db


def test_retriever_and_ranker_are_added_without_touching_others() -> None:
    owner = make_user()
    made = [
        make_conversation(owner, [user_says("newest?", created_at=day), assistant_says("yes.", created_at=day)])
        for day in (NEW_YEAR + timedelta(days=days) for days in (2, 9, 5))
    ]
    for conversation in made:
        index_conversation(conversation_id=conversation.pk)
    rankers = replace(Rankers.fitted(), full_text=SingleFeatureRanker(RECENCY))
    pipeline = Pipeline((*PIPELINE.retrievers, NewestRetriever()), rankers)
    ranked = rank_items(archive_id=owner.pk, query=SearchQuery(text="newest", mode="full_text"), pipeline=pipeline)
    sources, _ = split_keys(ranked.table.keys[ranked.order])
    assert sources == [source_id(made[number]) for number in (1, 2, 0)]


def test_toy_retriever_keeps_to_its_owner() -> None:
    owner, other = make_user(), make_user()
    conversation = make_conversation(other, exchange(("newest?", "yes.")))
    index_conversation(conversation_id=conversation.pk)
    pipeline = Pipeline((*PIPELINE.retrievers, NewestRetriever()))
    ranked = rank_items(archive_id=owner.pk, query=SearchQuery(text="newest", mode="full_text"), pipeline=pipeline)
    assert not len(ranked.table.keys)


@pytest.mark.django_db(transaction=True)
def test_search_may_be_first_to_need_space_that_another_process_made() -> None:
    space = active_space()
    EmbeddingSpace.objects.filter(pk=space.pk).update(is_active=False)
    assert not len(rank_items(archive_id=make_user().pk, query=SearchQuery(text="newest")).table.keys)
    assert active_space() == space


def test_ranker_without_retriever_for_its_feature_is_refused() -> None:
    with pytest.raises(PipelineError, match="recency"):
        Pipeline(rankers=replace(Rankers.fitted(), full_text=SingleFeatureRanker(RECENCY)))
