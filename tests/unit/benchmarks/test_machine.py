"""What is said of the machine that measured, and that it is given time to come to rest."""

import pytest

from benchmarks import machine


@pytest.fixture
def slept(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """How long was slept each time; the clock moves by that alone."""
    pauses: list[float] = []
    monkeypatch.setattr("time.sleep", pauses.append)
    monkeypatch.setattr("time.monotonic", lambda: sum(pauses))
    return pauses


def test_the_load_of_what_ran_before_fades_first(monkeypatch: pytest.MonkeyPatch, slept: list[float]) -> None:
    monkeypatch.setattr("os.getloadavg", lambda: (2.0 - 0.5 * len(slept), 0.0, 0.0))
    machine.wait_until_quiet()
    assert len(slept) == 3


def test_a_machine_that_stays_busy_is_not_waited_for_for_ever(
    monkeypatch: pytest.MonkeyPatch, slept: list[float]
) -> None:
    monkeypatch.setattr("os.getloadavg", lambda: (9.0, 9.0, 9.0))
    machine.wait_until_quiet()
    assert machine.PATIENCE_S <= sum(slept) <= machine.PATIENCE_S + 10
