"""Pauses after wrong passwords: who waits, for how long, and who does not."""

from datetime import timedelta

import pytest
from django.contrib.auth.models import User
from django.db.models import F

from convmemory.core.sql import load_sql
from convmemory.sign_in import attempts
from convmemory.sign_in.attempts import ADDRESS, NAME, PAIR, Attempt, PasswordsPaused
from convmemory.sign_in.models import KnownAddress, PasswordFailures
from tests.factories import make_user

pytestmark = pytest.mark.django_db

HERE, ELSEWHERE = "192.0.2.1", "198.51.100.7"


@pytest.fixture(autouse=True)
def time_stands_still(monkeypatch: pytest.MonkeyPatch) -> None:
    """It is the beginning of the test's transaction, but for `let_time_pass`: no pause ends on a slow machine."""
    monkeypatch.setattr(attempts, "load_sql", lambda *name: load_sql(*name).replace("clock_timestamp()", "now()"))


@pytest.fixture
def ada() -> User:
    return make_user("ada")


def fail(username: str, address: str) -> None:
    with Attempt(username=username, address=address):
        pass


def succeed(user: User, address: str) -> None:
    with Attempt(username=user.username, address=address) as attempt:
        attempt.succeeded(user)


def wait_of(username: str, address: str) -> int:
    """The seconds of the pause that a password meets."""
    with pytest.raises(PasswordsPaused) as caught:
        fail(username, address)
    return caught.value.retry_after_s


def let_time_pass(**values: float) -> None:
    passed = timedelta(**values)
    PasswordFailures.objects.update(
        last_failed_at=F("last_failed_at") - passed, paused_until=F("paused_until") - passed
    )
    KnownAddress.objects.update(succeeded_at=F("succeeded_at") - passed)


def attack(username: str, address: str, times: int) -> None:
    """So many wrong passwords, each after the pause of the one before."""
    for _ in range(times):
        PasswordFailures.objects.filter(paused_until__gt=F("last_failed_at")).update(paused_until=F("last_failed_at"))
        fail(username, address)


def test_pauses_double_up_to_300_s() -> None:
    for _ in range(PAIR.free):
        fail("ada", HERE)
    waits = []
    for _ in range(12):
        fail("ada", HERE)
        waits.append(wait_of("ada", HERE))
        let_time_pass(seconds=waits[-1])
    assert waits == [1, 2, 4, 8, 16, 32, 64, 128, 256, 300, 300, 300]


def test_attempts_during_pause_do_not_prolong_it() -> None:
    attack("ada", HERE, PAIR.free + 10)
    ends = list(PasswordFailures.objects.order_by("pk").values_list("paused_until", flat=True))
    for _ in range(20):
        wait_of("ada", HERE)
    assert list(PasswordFailures.objects.order_by("pk").values_list("paused_until", flat=True)) == ends


def test_unknown_names_pause_like_known_ones(ada: User) -> None:
    for name in ("ada", "nobody"):
        attack(name, HERE, PAIR.free + 3)
        assert wait_of(name, HERE) == 4
        PasswordFailures.objects.all().delete()


def test_name_is_paused_whatever_address_tries_it() -> None:
    for number in range(NAME.free + 5):
        attack("ada", f"203.0.113.{number}", 1)
    assert wait_of("ada", ELSEWHERE) == 16
    fail("grace", ELSEWHERE)


def test_address_is_paused_whatever_name_it_tries() -> None:
    for number in range(ADDRESS.free + 5):
        attack(f"user{number}", HERE, 1)
    assert wait_of("ada", HERE) == 16
    fail("ada", ELSEWHERE)


def test_pauses_of_name_end_within_minutes_however_long_attack() -> None:
    for number in range(NAME.free + 12):
        attack("ada", f"203.0.113.{number}", 1)
    assert wait_of("ada", ELSEWHERE) == NAME.longest_s


def test_known_address_is_not_paused_by_attacks_from_elsewhere(ada: User) -> None:
    succeed(ada, HERE)
    for number in range(NAME.free + 12):
        attack("ada", f"203.0.113.{number}", 1)
    assert wait_of("ada", ELSEWHERE)
    succeed(ada, HERE)


def test_right_password_after_pause_is_right(ada: User) -> None:
    attack("ada", ELSEWHERE, NAME.free + 5)
    let_time_pass(seconds=wait_of("ada", ELSEWHERE))
    succeed(ada, ELSEWHERE)
    for _ in range(PAIR.free):
        fail("ada", ELSEWHERE)  # forgotten, and the address known
    assert KnownAddress.objects.filter(person_id=ada.pk).count() == 1


def test_known_address_guesses_no_faster_than_others(ada: User) -> None:
    succeed(ada, HERE)
    attack("ada", HERE, PAIR.free + 3)
    assert wait_of("ada", HERE) == 4


def test_known_address_exempts_only_its_own_user(ada: User) -> None:
    succeed(ada, HERE)
    for number in range(NAME.free + 5):
        attack("grace", f"203.0.113.{number}", 1)
    assert wait_of("grace", HERE)


def test_successful_sign_in_does_not_reset_address_pause(ada: User) -> None:
    for number in range(ADDRESS.free + 5):
        attack(f"user{number}", HERE, 1)
    let_time_pass(seconds=wait_of("user0", HERE))
    succeed(ada, HERE)
    fail("user1", HERE)
    assert wait_of("user2", HERE) == 32


def test_addresses_of_one_network_count_as_one() -> None:
    attack("ada", "2001:db8:1:2::1", PAIR.free + 3)
    assert wait_of("ada", "2001:db8:1:2:ffff::9") == 4
    fail("ada", "2001:db8:1:3::1")


def test_failure_counts_decrease_with_time() -> None:
    attack("ada", HERE, PAIR.free + 5)
    let_time_pass(seconds=(PAIR.free + 3) * attempts.LEAK_S)
    for _ in range(PAIR.free - 2):
        fail("ada", HERE)  # two are left over
    fail("ada", HERE)
    assert wait_of("ada", HERE) == 1


def test_unconfigured_exception_does_not_count_as_failed_attempt() -> None:
    for _ in range(50):
        with pytest.raises(RuntimeError), Attempt(username="ada", address=HERE, wrong=(ValueError,)):
            raise RuntimeError("the queue is full")
    fail("ada", HERE)


def test_configured_exception_counts_as_failed_attempt() -> None:
    for _ in range(PAIR.free + 1):
        with pytest.raises(ValueError, match="wrong"), Attempt(username="ada", address=HERE, wrong=(ValueError,)):
            raise ValueError("wrong")
    assert wait_of("ada", HERE) == 1


def test_old_counts_and_addresses_are_deleted(ada: User) -> None:
    succeed(ada, HERE)
    for number in range(9):
        fail(f"user{number}", ELSEWHERE)
    let_time_pass(days=200)
    fail("grace", HERE)
    assert PasswordFailures.objects.count() == 3
    succeed(ada, ELSEWHERE)
    assert KnownAddress.objects.count() == 1


def test_names_and_addresses_are_stored_as_hashes(ada: User) -> None:
    fail("ada", HERE)
    succeed(ada, HERE)
    stored = [*PasswordFailures.objects.values_list("key"), *KnownAddress.objects.values_list("address_hash")]
    assert all(len(bytes(value)) == 32 for (value,) in stored)
