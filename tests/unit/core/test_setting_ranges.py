"""No number is taken as a setting that the product cannot work with: the start fails and names the range."""

import runpy
from pathlib import Path

import pytest
from django.conf import settings

from convmemory.core import conf
from convmemory.core.config import declared
from convmemory.core.errors import SettingError
from convmemory.core.setting_kinds import Number

SETTINGS = Path(settings.BASE_DIR) / "convmemory" / "settings.py"


def numeric_settings() -> list[str]:
    return [setting.variable for setting in declared() if isinstance(setting, Number)]


@pytest.fixture
def start(monkeypatch: pytest.MonkeyPatch) -> pytest.MonkeyPatch:
    """Keeps what this process reports as its settings."""
    monkeypatch.setattr(conf, "IN_FORCE", dict(conf.IN_FORCE))
    return monkeypatch


def refused(start: pytest.MonkeyPatch, name: str, value: str) -> str:
    start.setenv(name, value)
    with pytest.raises(SettingError) as raised:
        runpy.run_path(str(SETTINGS))
    return str(raised.value)


@pytest.mark.parametrize(
    ("name", "value", "allowed"),
    [
        ("RECALL_TOP_K", "60", "50 or less"),
        ("RECALL_THRESHOLD", "2", "from 0 to 1"),
        ("RECALL_THRESHOLD", "nan", "from 0 to 1"),
        ("MMR_LAMBDA", "7", "from 0 to 1"),
        ("MAX_RECALL_TOKENS", "20001", "20000 or less"),
        ("CHAT_TIMEOUT_S", "0", "at most 3600"),
        ("EMBEDDING_PROVIDER", "psychic", "local or openai"),
        ("LOG_LEVEL", "loud", "DEBUG or INFO"),
        ("TZ", "Mars/Olympus", "Europe/Berlin"),
        ("FORWARDED_ALLOW_IPS", "proxy.example.org", "such as 127.0.0.1"),
        ("FORWARDED_ALLOW_IPS", "127.0.0.1, *", "or * alone"),
        ("REMOTE_USER_HEADER", "Remote_User", "use letters, digits and hyphens"),
    ],
)
def test_out_of_range_setting_names_allowed_range(
    start: pytest.MonkeyPatch, name: str, value: str, allowed: str
) -> None:
    message = refused(start, name, value)
    assert name in message
    assert allowed in message


@pytest.mark.parametrize("name", ["REDIS_URL", "REDIS_URL_FILE"])
def test_redis_of_earlier_version_is_refused_with_remedy(start: pytest.MonkeyPatch, name: str) -> None:
    assert "remove REDIS_URL and REDIS_URL_FILE" in refused(start, name, "redis://127.0.0.1")


@pytest.mark.parametrize("name", sorted(numeric_settings()))
@pytest.mark.parametrize("value", ["-1", "9" * 18])
def test_every_number_has_range(start: pytest.MonkeyPatch, name: str, value: str) -> None:
    assert name in refused(start, name, value)


def test_ends_of_range_are_accepted(start: pytest.MonkeyPatch) -> None:
    for values in ({"RECALL_TOP_K": "50", "MMR_LAMBDA": "1"}, {"RECALL_THRESHOLD": "0", "MMR_LAMBDA": "0"}):
        for name, value in values.items():
            start.setenv(name, value)
        runpy.run_path(str(SETTINGS))
