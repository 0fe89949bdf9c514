"""Callers that exceed their fair share of time pause."""

import pytest

from convmemory.http_limits.used_time import (
    FREE_SHARE,
    LONGEST_PAUSE_S,
    PAUSE_BY_REQUEST,
    REQUESTED_SHARE,
    SPAN_S,
    UsedTime,
)

MUCH = SPAN_S * REQUESTED_SHARE + 1


class Clock:
    now = 100.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def used(clock: Clock) -> UsedTime:
    return UsedTime(clock)


def test_used_time_decays_exponentially(used: UsedTime, clock: Clock) -> None:
    used.add("ada", 6.0)
    clock.now += SPAN_S
    assert used.of("ada") == pytest.approx(6.0 / 2.718, rel=0.01)
    assert used.of("bob") == 0


def test_caller_within_free_share_does_not_pause(used: UsedTime) -> None:
    used.add("ada", SPAN_S * FREE_SHARE / 2)
    assert used.pause_after("ada", 0.2, others=["bob"]) == 0


def test_only_largest_of_two_floods_pauses(used: UsedTime) -> None:
    used.add("ada", MUCH)
    used.add("bob", MUCH + 1)
    assert used.pause_after("ada", 0.2, others=["bob"]) == 0
    assert used.pause_after("bob", 0.2, others=["ada"]) == PAUSE_BY_REQUEST * 0.2


def test_all_floods_pause_while_person_is_active(used: UsedTime) -> None:
    used.add("ada", MUCH)
    used.add("bob", MUCH + 1)
    assert used.pause_after("ada", 0.2, others=["bob", "person"]) == PAUSE_BY_REQUEST * 0.2
    assert used.pause_after("bob", 0.2, others=["ada", "person"]) == PAUSE_BY_REQUEST * 0.2


def test_time_waited_in_line_makes_caller_flood(used: UsedTime) -> None:
    used.add("person", SPAN_S * FREE_SHARE + 1)
    used.add("flood", SPAN_S * FREE_SHARE + 0.5, waited_s=SPAN_S)
    assert used.pause_after("person", 0.2, others=["flood"]) == 0
    assert used.pause_after("flood", 0.2, others=["person"]) == PAUSE_BY_REQUEST * 0.2


def test_waiting_without_use_is_not_much(used: UsedTime) -> None:
    used.add("patient", SPAN_S * FREE_SHARE / 2, waited_s=SPAN_S)
    assert not used.exceeds_fair_share("patient")


def test_pause_is_at_most_longest_pause_s(used: UsedTime) -> None:
    used.add("ada", 60.0)
    assert used.pause_after("ada", 60.0, others=["bob"]) == LONGEST_PAUSE_S


def test_always_busy_caller_converges_to_span_s(used: UsedTime, clock: Clock) -> None:
    for _ in range(10_000):
        clock.now += 0.01
        used.add("ada", 0.01)
    assert used.of("ada") == pytest.approx(SPAN_S, rel=0.01)
