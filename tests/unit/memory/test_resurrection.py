"""The budget is never exceeded, nothing comes twice, what is alive costs nothing, the target goes first."""

from hypothesis import given
from hypothesis import strategies as st

from memory.context import Chunk, Group, resurrect

QUESTION = Chunk("user 29 S0", 120)
ANSWER = Chunk("assistant 30 S0", 80)
TARGET = Chunk("assistant 30 S5", 150)
HIT = Group((TARGET,), other_opening=QUESTION, own_opening=ANSWER)


# --- the paper's accounting -----------------------------------------------------------------------


def test_a_passage_of_an_answer_brings_the_question_and_the_answers_opening() -> None:
    found = resurrect([HIT], budget=350)
    assert found.tokens == 350
    assert set(found.brought) == {TARGET, QUESTION, ANSWER}


def test_an_opening_that_is_the_target_does_not_count_twice() -> None:
    found = resurrect([Group((ANSWER,), other_opening=QUESTION, own_opening=ANSWER)], budget=1000)
    assert found.brought == (ANSWER, QUESTION)
    assert found.tokens == 200


def test_chunks_in_context_cost_no_budget() -> None:
    found = resurrect([HIT], budget=230, alive={QUESTION.key})
    assert found.brought == (TARGET, ANSWER)
    assert found.tokens == 230
    assert found.outcomes[0].alive == (QUESTION,)


def test_a_target_that_leaves_no_room_for_its_question_comes_alone() -> None:
    group = Group((Chunk("target", 200),), other_opening=Chunk("user S0", 150))
    found = resurrect([group], budget=256)
    assert [chunk.key for chunk in found.brought] == ["target"]
    (missing,) = found.outcomes[0].missing
    assert (missing.part, missing.reason) == ("other opening", "needs 150 tokens, 56 were left")


def test_question_precedes_own_opening_within_the_budget() -> None:
    assert resurrect([HIT], budget=290).brought == (TARGET, QUESTION)
    assert resurrect([HIT], budget=240).brought == (TARGET, ANSWER)  # the question does not fit, the opening does


def test_a_group_that_does_not_fit_is_left_out_and_the_next_is_tried() -> None:
    small = Group((Chunk("small", 40),))
    found = resurrect([HIT, small], budget=100)
    assert [chunk.key for chunk in found.brought] == ["small"]
    assert found.left_out == (found.outcomes[0],)
    assert found.outcomes[0].missing[0].reason == "needs 150 tokens, 100 were left"


def test_group_reuses_chunks_of_an_earlier_group() -> None:
    second = Group((Chunk("assistant 30 S7", 50),), other_opening=QUESTION, own_opening=ANSWER)
    found = resurrect([HIT, second], budget=400)
    assert found.tokens == 400
    assert found.outcomes[1].alive == (QUESTION, ANSWER)


def test_group_entirely_in_context_brings_and_omits_nothing() -> None:
    found = resurrect([HIT], budget=0, alive={TARGET.key, QUESTION.key, ANSWER.key})
    assert (found.brought, found.left_out, found.tokens) == ((), (), 0)


# --- whatever is given ----------------------------------------------------------------------------

SIZES = [13, 40, 1, 77, 5, 200, 0, 64, 31, 9]
chunks = st.integers(0, len(SIZES) - 1).map(lambda number: Chunk(number, SIZES[number]))
groups = st.lists(
    st.builds(
        Group,
        st.lists(chunks, min_size=1, max_size=4, unique=True).map(tuple),
        other_opening=st.none() | chunks,
        own_opening=st.none() | chunks,
    ),
    max_size=8,
)


@given(groups, st.integers(-5, 400), st.sets(st.integers(0, len(SIZES) - 1)))
def test_budget_and_uniqueness_hold_for_any_groups(groups: list[Group], budget: int, alive: set[int]) -> None:
    found = resurrect(groups, budget=budget, alive=alive)
    keys = [chunk.key for chunk in found.brought]
    assert found.tokens == sum(chunk.tokens for chunk in found.brought) <= max(budget, 0)
    assert len(keys) == len(set(keys))
    assert not set(keys) & alive
    assert [outcome.group for outcome in found.outcomes] == groups
    living: set[object] = set(alive)
    left = budget
    for outcome in found.outcomes:
        told = [*outcome.brought, *outcome.alive, *(missing.chunk for missing in outcome.missing)]
        target = outcome.group.target[0]
        if outcome.left_out:
            assert outcome.brought == ()
            assert target.key not in living
            assert target.tokens > left
        else:
            assert target.key in living or target in outcome.brought
            assert {chunk.key for chunk in told} == {chunk.key for _, chunk in outcome.group.parts()}
            assert list(outcome.brought) == [chunk for _, chunk in outcome.group.parts() if chunk in outcome.brought]
        assert {chunk.key for chunk in outcome.alive} <= living
        for missing in outcome.missing:
            assert missing.chunk.tokens > missing.tokens_left >= left - outcome.tokens
        living |= {chunk.key for chunk in outcome.brought}
        left -= outcome.tokens


@given(groups, st.sets(st.integers(0, len(SIZES) - 1)))
def test_sufficient_budget_brings_every_group_whole(groups: list[Group], alive: set[int]) -> None:
    found = resurrect(groups, budget=sum(SIZES), alive=alive)
    wanted = {chunk.key for group in groups for _, chunk in group.parts()}
    assert {chunk.key for chunk in found.brought} == wanted - alive
    assert not any(outcome.missing for outcome in found.outcomes)
