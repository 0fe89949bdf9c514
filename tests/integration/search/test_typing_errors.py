"""Words that the owner's index does not hold are searched for as the nearest ones that it does."""

from typing import Any

import pytest
from django.contrib.auth.models import User
from django.test import Client

from convmemory.accounts.callers import Caller
from search.adapters.conversations import index_conversation
from search.indexing.packing import pack_again
from search.models import Source
from search.pages.palette import palette_sections
from search.query import SearchQuery
from search.retrieval.typing_errors import correct_typing_errors
from search.searching import SearchResults, search
from tests.factories import exchange, make_conversation, make_user

pytestmark = pytest.mark.django_db

FENCE = ("My neighbour wants a new fence between our gardens.", "Ask about the costs and the necessary accommodation.")
DESSERT = ("Une crème brûlée à Besançon, s'il vous plaît.", "Très volontiers, avec du sucre.")
CLUSTER = ("How do I configure a Kubernetes cluster?", "With kubectl, and a file in YAML.")


def owner_with(*pairs: tuple[str, str], title: str = "") -> User:
    owner = make_user()
    make_conversation(owner, exchange(*pairs), title=title)
    return owner


def results(owner: User, text: str, **values: Any) -> SearchResults:
    query = SearchQuery(text=text, mode="full_text", has_operators=True, **values)
    return search(caller=Caller.of(owner), query=query)


@pytest.mark.parametrize(
    ("typed", "searched"),
    [
        ("neigbour fense", "neighbour fence"),
        ("Neigbour's", None),
        ("a Neihgbour, perhaps", "a Neighbour, perhaps"),
        ("accomodaton", "accommodation"),
        ("neccesary", "necessary"),
        ("gardns", "gardens"),
    ],
)
def test_words_with_typing_errors_are_corrected(typed: str, searched: str | None) -> None:
    owner = owner_with(FENCE, CLUSTER)
    correction = results(owner, typed).correction
    assert (correction and correction.text) == searched


def test_letter_that_sounds_alike_is_likelier_than_one_left_out() -> None:
    window = "Die Fenster im Haus sind alt, und nicht alle lassen sich noch öffnen."
    owner = owner_with(FENCE, (window, window), (window, window))
    correction = results(owner, "neigbour fense").correction
    assert correction
    assert correction.text == "neighbour fence"


def test_word_that_resembles_the_stem_of_another_stays_as_typed() -> None:
    owner = owner_with(("Which probe does the kubelet run?", "The liveness probe, with autouse fixtures."))
    assert results(owner, "kubernetes probe").correction is None
    assert results(owner, "autoscaling probe").correction is None


@pytest.mark.parametrize("packed", [False, True])
def test_results_are_those_of_corrected_words_and_say_so(packed: bool) -> None:
    owner = owner_with(CLUSTER, FENCE)
    if packed:
        pack_again(list(Source.objects.filter(archive_id=owner.pk).values_list("pk", flat=True)))
    found = results(owner, "neigbour fense")
    assert [hit.number for hit in found.hits] == [1]
    assert [found.hits[0].passage[start:end] for start, end in found.hits[0].marks] == ["neighbour", "fence"]
    assert found.notes == (
        'Results for “neighbour fence”. Put words in quotes to search for them as typed: "neigbour", "fense".',
    )
    assert found.correction
    assert found.correction.exactly("neigbour fense") == '"neigbour" "fense"'


def test_word_without_accents_and_with_typing_error_is_corrected() -> None:
    owner = owner_with(DESSERT, CLUSTER)
    assert [hit.number for hit in results(owner, "Besancno bruleee").hits] == [0]


@pytest.mark.parametrize(
    "typed",
    ['"neigbour"', '"neigbour" "fense"', "neigbour2", "neigBour", "NEIGBOUR", "src/neigbour", "9876543", "fens"],
)
def test_quoted_words_identifiers_and_numbers_stay(typed: str) -> None:
    owner = owner_with(FENCE, CLUSTER)
    assert results(owner, typed).correction is None


def test_words_that_index_holds_stay() -> None:
    owner = owner_with(FENCE, ("The word fense is an error.", "Yes."))
    found = results(owner, "fense")
    assert found.correction is None
    assert [hit.number for hit in found.hits] == [1]


def test_words_that_direct_an_assistant_stay() -> None:
    owner = owner_with(("The lable says misso and wideer.", "These are typing errors."))
    for typed in ("ahora lo mismo", "nimm das wieder"):
        assert correct_typing_errors(owner.pk, typed) is None


def test_stop_words_of_any_language_stay() -> None:
    owner = owner_with(("What are the files unsexe and estuvierax?", "They are of no use."))
    assert correct_typing_errors(owner.pk, "unsele estuvieray")
    assert correct_typing_errors(owner.pk, "unsere Wohnung") is None
    assert correct_typing_errors(owner.pk, "estuviera aqu\u00ed") is None


def test_words_that_index_holds_in_another_inflection_stay() -> None:
    said = (
        "Die Mietvertr\u00e4ge hat der Anwalt gepr\u00fcft, und der Vertrag mit dem Verwalter liegt bei mir im Schrank."
    )
    owner = owner_with(("Wo sind die Unterlagen zu der Wohnung, und wer hat sie gepr\u00fcft?", said))
    make_conversation(owner, exchange(("What is the file vertragex?", "It is of no use.")))
    assert correct_typing_errors(owner.pk, "vertragev")
    assert correct_typing_errors(owner.pk, "Vertr\u00e4gen") is None


def test_titles_named_like_query_are_of_words_that_name_something() -> None:
    owner = owner_with(CLUSTER, title="The other file")
    assert [title.title for title in results(owner, "other file").titles] == ["The other file"]
    assert results(owner, "now do the same for the other file").titles == ()


def test_excluded_word_stays() -> None:
    owner = owner_with(FENCE, CLUSTER)
    found = results(owner, "neighbour -fense")
    assert found.correction is None
    assert [hit.number for hit in found.hits] == [0]


def test_words_of_other_owners_are_not_suggested() -> None:
    owner_with(FENCE, DESSERT, title="Kangaroos")
    owner = owner_with(CLUSTER)
    for typed in ("neigbour", "fense", "accomodaton", "bruleee", "kangaros"):
        assert correct_typing_errors(owner.pk, typed) is None
        assert results(owner, typed).correction is None


def test_titles_and_palette_are_searched_for_corrected_words() -> None:
    owner = owner_with(CLUSTER, title="Kangaroos of Queensland")
    found = results(owner, "kangaros")
    assert [title.title for title in found.titles] == ["Kangaroos of Queensland"]
    sections = palette_sections(caller=Caller.of(owner), text="kangaros")
    assert [
        (entry.label, section.label) for section in sections for entry in section.entries if entry.icon == "chat"
    ] == [("Kangaroos of Queensland", "Conversations: kangaroos")]


def test_hybrid_search_corrects_words_that_its_model_does_not_know() -> None:
    owner = make_user()
    conversation = make_conversation(owner, exchange(FENCE, CLUSTER))
    index_conversation(conversation_id=conversation.pk)
    found = search(caller=Caller.of(owner), query=SearchQuery(text="neigbour fense", has_operators=True))
    assert found.correction is not None
    assert found.hits[0].number == 0


def test_find_in_conversation_says_what_it_looked_for(client: Client) -> None:
    owner = make_user()
    conversation = make_conversation(owner, exchange(CLUSTER, FENCE))
    client.force_login(owner)
    page = client.get(f"/conversations/{conversation.pk}/outline", {"find": "neigbour"}).content.decode()
    assert "“neigbour” does not occur here. 1 turn with “neighbour”" in page


def test_page_says_what_it_looked_for_and_links_to_typed_words(client: Client) -> None:
    owner = owner_with(FENCE, CLUSTER)
    client.force_login(owner)
    page = client.get("/search", {"q": "neigbour fense", "mode": "full_text"}).content.decode()
    assert "Results for <strong>neighbour fence</strong>." in page
    assert "q=%22neigbour%22+%22fense%22" in page
    assert "<mark>neighbour</mark>" in page
    assert "Put words in quotes" not in page
    typed = client.get("/search", {"q": '"neigbour" "fense"', "mode": "full_text"}).content.decode()
    assert "Results for <strong>" not in typed
