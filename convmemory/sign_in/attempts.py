"""Pauses after wrong passwords, stored in the database, so that all web processes share them.

An attempt is counted before its password is checked, so that many parallel attempts get no further than successive
ones. There are three counts, each with some free attempts and then pauses that double: for a name from an address, for
a name, and for an address. For an address from which the name's owner has signed in before, only the first count
applies: an attacker cannot lock the owner out there, and elsewhere only for minutes at a time. Unknown names are
counted like others.
"""

from contextlib import AbstractContextManager
from dataclasses import dataclass
from datetime import timedelta
from types import TracebackType
from typing import Any

from django.contrib.auth.models import AbstractBaseUser
from django.db import connection
from django.utils.crypto import salted_hmac

from convmemory.core.acting import acting_for
from convmemory.core.errors import ConvMemoryError
from convmemory.core.sql import load_sql
from convmemory.core.web.callers import network_of

FORGET_FAILURES = timedelta(days=1)
FORGET_ADDRESSES = timedelta(days=180)  # since the last right password from there
LEAK_S = 600  # one failure is forgiven after this many seconds without another


@dataclass(frozen=True, slots=True)
class Rule:
    """The number of free attempts, and the longest pause in seconds."""

    free: int
    longest_s: int
    holds_for_known: bool


PAIR = Rule(free=5, longest_s=300, holds_for_known=True)
NAME = Rule(free=20, longest_s=300, holds_for_known=False)
ADDRESS = Rule(free=20, longest_s=900, holds_for_known=False)
RULES = (PAIR, NAME, ADDRESS)


class PasswordsPaused(ConvMemoryError):
    """Too many wrong passwords; for the next `retry_after_s` seconds none is checked."""

    sentence = (
        "Too many wrong passwords. Wait {} seconds and try again; a password that is sent before is not looked at."
    )

    def __init__(self, retry_after_s: int) -> None:
        self.retry_after_s = retry_after_s
        super().__init__(self.sentence.format(retry_after_s))


class ResetsPaused(PasswordsPaused):
    """Too many requests for a new password; for the next `retry_after_s` seconds none is accepted."""

    sentence = "Too many requests for a new password. Wait {} seconds and try again; no mail was sent."


class CodesPaused(PasswordsPaused):
    """Too many wrong codes of a second factor; for the next `retry_after_s` seconds none is checked."""

    sentence = "Too many wrong codes. Wait {} seconds and try again; a code that is sent before is not looked at."


class SignInsPaused(PasswordsPaused):
    """Too many failed sign-ins by a provider; for the next `retry_after_s` seconds none is finished."""

    sentence = "Too many failed sign-ins. Wait {} seconds, then begin again."


class Attempt(AbstractContextManager["Attempt"]):
    """One check of a password. It counts as wrong from the start of the block.

    In the block, `succeeded` reports that it was right. An error other than a wrong password reverts the count. What is
    not a password (`counted`) has counts of its own, so that it never pauses passwords, and an error of its own.
    """

    def __init__(
        self,
        *,
        username: str,
        address: str,
        wrong: tuple[type[Exception], ...] = (),
        counted: str = "",
        pause: type[PasswordsPaused] = PasswordsPaused,
    ) -> None:
        network = network_of(address)
        self._username, self._wrong, self._pause = username, wrong, pause
        self._address = _key(f"{counted}address", network)
        # In the order of `RULES`.
        self._keys = [
            _key(f"{counted}pair", f"{network} {username}"), _key(f"{counted}name", username), self._address
        ]  # fmt: skip
        self._is_known = False

    def __enter__(self) -> "Attempt":
        """Count the attempt. Raises: PasswordsPaused."""
        parameters: dict[str, Any] = {
            "username": self._username,
            "address": self._address,
            "keys": self._keys,
            "free": [rule.free for rule in RULES],
            "longest_s": [rule.longest_s for rule in RULES],
            "holds_for_known": [rule.holds_for_known for rule in RULES],
            "forget": FORGET_FAILURES,
            "leak_s": LEAK_S,
        }
        with connection.cursor() as cursor:
            cursor.execute(load_sql("convmemory.sign_in", "begin_attempt"), parameters)
            may_be_judged, self._is_known, wait_s = cursor.fetchone()
        if not may_be_judged:
            raise self._pause(wait_s or 1)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if kind is not None and not issubclass(kind, self._wrong):
            self._take_back(cleared=[])

    def passed(self) -> None:
        """Report that the attempt was right: clear the wrong ones before it."""
        self._take_back(cleared=self._keys[:1])

    def succeeded(self, user: AbstractBaseUser) -> None:
        """Report that the password was right: clear the wrong ones before it, and remember the address."""
        self.passed()
        values = {"owner": user.pk, "address": self._address, "forget": FORGET_ADDRESSES}
        with acting_for(user.pk), connection.cursor() as cursor:
            cursor.execute(load_sql("convmemory.sign_in", "remember_address"), values)

    def _take_back(self, *, cleared: list[bytes]) -> None:
        counted = [
            key for key, rule in zip(self._keys, RULES, strict=True) if rule.holds_for_known or not self._is_known
        ]
        with connection.cursor() as cursor:
            values = {"cleared": cleared, "counted": [key for key in counted if key not in cleared]}
            cursor.execute(load_sql("convmemory.sign_in", "end_attempt"), values)


def count_reset_request(*, email: str, address: str) -> None:
    """Count a request for a new password, with the pauses of wrong ones. Raises: ResetsPaused."""
    with Attempt(username=email.casefold(), address=address, counted="reset ", pause=ResetsPaused):
        pass


def is_password_of(*, user: AbstractBaseUser, password: str, address: str) -> bool:
    """Return whether it is the password of a signed-in user. Raises: PasswordsPaused, HashingBusy."""
    with Attempt(username=user.get_username(), address=address) as attempt:
        is_right = user.check_password(password)
        if is_right:
            attempt.succeeded(user)
    return is_right


def _key(kind: str, value: str) -> bytes:
    return salted_hmac(f"convmemory.sign_in.{kind}", value, algorithm="sha256").digest()
