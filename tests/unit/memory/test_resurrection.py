"""The budget is never exceeded, nothing comes twice, what is alive costs nothing, the target goes first."""

from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from memory.context import Chunk, HitChunks, resurrect

QUESTION = Chunk("user 29 S0", 120)
ANSWER = Chunk("assistant 30 S0", 80)
TARGET = Chunk("assistant 30 S5", 150)
HIT = HitChunks(TARGET, other_opening=QUESTION, own_opening=ANSWER)


def test_passage_of_answer_brings_question_and_answers_opening() -> None:
    found = resurrect([HIT], budget=350)
    assert found.tokens == 350
    assert set(found.brought) == {TARGET, QUESTION, ANSWER}


def test_opening_that_is_target_does_not_count_twice() -> None:
    found = resurrect([HitChunks(ANSWER, other_opening=QUESTION, own_opening=ANSWER)], budget=1000)
    assert found.brought == (ANSWER, QUESTION)
    assert found.tokens == 200


def test_chunks_in_context_cost_no_budget() -> None:
    found = resurrect([HIT], budget=230, alive={QUESTION.key})
    assert found.brought == (TARGET, ANSWER)
    assert found.tokens == 230
    assert found.outcomes[0].alive == (QUESTION,)


def test_target_that_leaves_no_room_for_its_question_comes_alone() -> None:
    group = HitChunks(Chunk("target", 200), other_opening=Chunk("user S0", 150))
    found = resurrect([group], budget=256)
    assert [chunk.key for chunk in found.brought] == ["target"]
    (missing,) = found.outcomes[0].missing
    assert (missing.part, missing.reason) == ("other opening", "needs 150 tokens, 56 were left")


def test_question_precedes_own_opening_within_budget() -> None:
    assert resurrect([HIT], budget=290).brought == (TARGET, QUESTION)
    assert resurrect([HIT], budget=240).brought == (TARGET, ANSWER)  # the question does not fit, the opening does


def test_group_that_does_not_fit_is_left_out_and_next_is_tried() -> None:
    small = HitChunks(Chunk("small", 40))
    found = resurrect([HIT, small], budget=100)
    assert [chunk.key for chunk in found.brought] == ["small"]
    assert found.left_out == (found.outcomes[0],)
    assert found.outcomes[0].missing[0].reason == "needs 150 tokens, 100 were left"


def test_group_reuses_chunks_of_earlier_group() -> None:
    second = HitChunks(Chunk("assistant 30 S7", 50), other_opening=QUESTION, own_opening=ANSWER)
    found = resurrect([HIT, second], budget=400)
    assert found.tokens == 400
    assert found.outcomes[1].alive == (QUESTION, ANSWER)


def test_partners_of_every_hit_precede_further_passages_which_come_by_value_per_token() -> None:
    second = HitChunks(Chunk("b", 10), other_opening=Chunk("b question", 10), further=(Chunk("b2", 10, 0.9, "more"),))
    first = HitChunks(
        Chunk("a", 10),
        other_opening=Chunk("a question", 10),
        further=(Chunk("a2", 30, 0.95, "long"), Chunk("a3", 10, 0.5, "short"), Chunk("a4", 15, 0.8, "more")),
        earlier=(Chunk("before", 10),),
    )
    found = resurrect([first, second], budget=70)
    assert [chunk.key for chunk in found.outcomes[0].brought] == ["a", "a question", "a3", "before"]
    assert [chunk.key for chunk in found.outcomes[1].brought] == ["b", "b question", "b2"]
    assert [chunk.key for chunk in found.outcomes[0].alive] == ["a4"]  # its text came back with the other hit
    assert found.outcomes[0].missing[0].chunk.key == "a2"


def test_best_hits_come_whole_as_long_as_they_fit() -> None:
    hits = [HitChunks(Chunk(f"{n}", 10), further=(Chunk(f"{n} more", 30, 0.1 * n),)) for n in (1, 2, 3, 4)]
    found = resurrect(hits, budget=110)
    assert [[chunk.key for chunk in outcome.brought] for outcome in found.outcomes] == [
        ["1", "1 more"], ["2", "2 more"], ["3"], ["4"]
    ]  # fmt: skip


def test_hit_whose_long_opening_is_in_context_comes_whole() -> None:
    opening = Chunk("question", 100)
    first = HitChunks(Chunk("a", 10), other_opening=opening, further=(Chunk("a2", 10, 0.1),))
    second = HitChunks(Chunk("b", 10), further=(Chunk("b2", 10, 0.9),))
    found = resurrect([first, second], budget=30, alive={opening.key})
    assert [[chunk.key for chunk in outcome.brought] for outcome in found.outcomes] == [["a", "a2"], ["b"]]


def test_chunk_that_does_not_fit_comes_back_shortened() -> None:
    found = resurrect([HIT], budget=300, shorten=lambda chunk, tokens: replace(chunk, tokens=tokens, chars=9))
    assert [(chunk.key, chunk.tokens) for chunk in found.brought] == [
        (TARGET.key, 120), (QUESTION.key, 100), (ANSWER.key, 80)
    ]  # fmt: skip


def test_shortened_target_leaves_room_for_its_openings_unless_its_sentence_needs_it() -> None:
    def cut(chunk: Chunk, tokens: int) -> Chunk | None:
        return replace(chunk, tokens=60, chars=9) if tokens >= 60 else None

    assert [chunk.tokens for chunk in resurrect([HIT], budget=190, shorten=cut).brought] == [60, 60, 60]
    assert [chunk.key for chunk in resurrect([HIT], budget=70, shorten=cut).brought] == [TARGET.key]


def test_group_entirely_in_context_brings_and_omits_nothing() -> None:
    found = resurrect([HIT], budget=0, alive={TARGET.key, QUESTION.key, ANSWER.key})
    assert (found.brought, found.left_out, found.tokens) == ((), (), 0)


SIZES = [13, 40, 1, 77, 5, 200, 0, 64, 31, 9]
numbers = st.integers(0, len(SIZES) - 1)
chunks = numbers.map(lambda number: Chunk(number, SIZES[number], number / 10))
some = st.lists(chunks, max_size=3, unique=True).map(tuple)
groups = st.lists(
    st.builds(
        HitChunks, chunks, other_opening=st.none() | chunks, own_opening=st.none() | chunks, further=some, earlier=some
    ),
    max_size=8,
)


@given(groups, st.integers(-5, 400), st.sets(numbers))
def test_budget_and_uniqueness_hold_for_any_groups(groups: list[HitChunks], budget: int, alive: set[int]) -> None:
    found = resurrect(groups, budget=budget, alive=alive)
    keys = [chunk.key for chunk in found.brought]
    assert found.tokens == sum(chunk.tokens for chunk in found.brought) <= max(budget, 0)
    assert len(keys) == len(set(keys))
    assert not set(keys) & alive
    assert [outcome.group for outcome in found.outcomes] == groups
    for outcome in found.outcomes:
        told = {*outcome.brought, *outcome.alive, *(missing.chunk for missing in outcome.missing)}
        assert {chunk.key for chunk in outcome.alive} <= alive | set(keys)
        assert all(missing.chunk.tokens > missing.tokens_left for missing in outcome.missing)
        if outcome.left_out:
            assert outcome.brought == ()
        else:
            assert told == {chunk for _, chunk in outcome.group.parts()}


@given(groups, st.sets(numbers))
def test_sufficient_budget_brings_every_group_whole(groups: list[HitChunks], alive: set[int]) -> None:
    found = resurrect(groups, budget=sum(SIZES), alive=alive)
    wanted = {chunk.key for group in groups for _, chunk in group.parts()}
    assert {chunk.key for chunk in found.brought} == wanted - alive
    assert not any(outcome.missing for outcome in found.outcomes)
