"""Test the description of the measuring machine, and the wait until it is idle."""

import pytest

from benchmarks import machine


@pytest.fixture
def slept(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """Return the seconds of each sleep; only sleeping moves the clock."""
    pauses: list[float] = []
    monkeypatch.setattr("time.sleep", pauses.append)
    monkeypatch.setattr("time.monotonic", lambda: sum(pauses))
    return pauses


def test_wait_until_quiet_sleeps_until_load_is_low(monkeypatch: pytest.MonkeyPatch, slept: list[float]) -> None:
    monkeypatch.setattr("os.getloadavg", lambda: (2.0 - 0.5 * len(slept), 0.0, 0.0))
    machine.wait_until_quiet()
    assert len(slept) == 3


def test_wait_for_quiet_machine_ends_after_patience_s(monkeypatch: pytest.MonkeyPatch, slept: list[float]) -> None:
    monkeypatch.setattr("os.getloadavg", lambda: (9.0, 9.0, 9.0))
    machine.wait_until_quiet()
    assert machine.PATIENCE_S <= sum(slept) <= machine.PATIENCE_S + 10
