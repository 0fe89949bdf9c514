"""Settings readers: what they accept, and what they say about the rest."""

from pathlib import Path

import pytest

from convmemory.core import conf
from convmemory.core.errors import SettingError


@pytest.fixture
def given(monkeypatch: pytest.MonkeyPatch) -> pytest.MonkeyPatch:
    for name in ("THING", "THING_FILE"):
        monkeypatch.delenv(name, raising=False)
    return monkeypatch


@pytest.mark.parametrize(("text", "value"), [("7", 7), (" 7 ", 7), ("", 3), ("-2", -2)])
def test_env_int_reads_whole_numbers(given: pytest.MonkeyPatch, text: str, value: int) -> None:
    given.setenv("THING", text)

    assert conf.env_int("THING", 3, minimum=-9, maximum=9) == value


def test_env_int_is_default_when_unset(given: pytest.MonkeyPatch) -> None:
    assert conf.env_int("THING", 3, minimum=1, maximum=9) == 3


@pytest.mark.parametrize("text", ["seven", "7.5", "7 8", "0x7"])
def test_env_int_names_variable_and_value(given: pytest.MonkeyPatch, text: str) -> None:
    given.setenv("THING", text)

    with pytest.raises(SettingError, match=f"THING='{text}' is not a whole number"):
        conf.env_int("THING", 3, minimum=-9, maximum=9)


def test_env_int_refuses_less_than_minimum(given: pytest.MonkeyPatch) -> None:
    given.setenv("THING", "0")

    with pytest.raises(SettingError, match="THING=0 is too small: use 1 or more"):
        conf.env_int("THING", 3, minimum=1, maximum=9)


def test_env_int_refuses_more_than_maximum(given: pytest.MonkeyPatch) -> None:
    given.setenv("THING", "9")

    with pytest.raises(SettingError, match="THING=9 is too large: use 8 or less"):
        conf.env_int("THING", 3, minimum=1, maximum=8)


def test_env_float_reads_numbers(given: pytest.MonkeyPatch) -> None:
    assert conf.env_float("THING", 1.5, minimum=0, maximum=4) == 1.5
    given.setenv("THING", "2.5")
    assert conf.env_float("THING", 1.5, minimum=0, maximum=4) == 2.5
    given.setenv("THING", "2,5")
    with pytest.raises(SettingError, match="THING='2,5' is not a number"):
        conf.env_float("THING", 1.5, minimum=0, maximum=4)


def test_env_float_refuses_what_is_out_of_range(given: pytest.MonkeyPatch) -> None:
    for text in ("-0.1", "4.1", "nan", "inf"):
        given.setenv("THING", text)
        with pytest.raises(SettingError, match=f"THING={text} is out of range: use a number from 0 to 4"):
            conf.env_float("THING", 1.5, minimum=0, maximum=4)


def test_env_choice_may_ignore_case(given: pytest.MonkeyPatch) -> None:
    given.setenv("THING", "warning")
    assert conf.env_choice("THING", "INFO", ("INFO", "WARNING"), ignore_case=True) == "WARNING"
    with pytest.raises(SettingError, match="THING='warning' is unknown: use INFO or WARNING"):
        conf.env_choice("THING", "INFO", ("INFO", "WARNING"))


def test_env_time_zone_knows_names(given: pytest.MonkeyPatch) -> None:
    assert conf.env_time_zone("THING", "UTC") == "UTC"
    given.setenv("THING", "Europe/Berlin")
    assert conf.env_time_zone("THING", "UTC") == "Europe/Berlin"
    for text in ("Mars/Olympus", "../etc/passwd", "CET+1"):
        given.setenv("THING", text)
        with pytest.raises(SettingError, match="is no time zone"):
            conf.env_time_zone("THING", "UTC")


def test_env_share_is_above_0_and_at_most_1(given: pytest.MonkeyPatch) -> None:
    given.setenv("THING", "1")
    assert conf.env_share("THING", 0.5) == 1
    for text in ("0", "80", "-0.5", "nan"):
        given.setenv("THING", text)
        with pytest.raises(SettingError, match="THING="):
            conf.env_share("THING", 0.5)


def test_env_seconds_is_above_0_and_at_most_hour(given: pytest.MonkeyPatch) -> None:
    given.setenv("THING", "0.3")
    assert conf.env_seconds("THING", 0.8) == 0.3
    for text in ("0", "-1", "3601", "nan", "inf"):
        given.setenv("THING", text)
        with pytest.raises(SettingError, match="THING="):
            conf.env_seconds("THING", 0.8)


@pytest.mark.parametrize(
    ("text", "value"), [("1", True), ("TRUE", True), (" on ", True), ("0", False), ("No", False), ("", False)]
)
def test_env_bool_reads_usual_words(given: pytest.MonkeyPatch, text: str, value: bool) -> None:
    given.setenv("THING", text)

    assert conf.env_bool("THING", default=not value) is value


def test_env_bool_refuses_another_word(given: pytest.MonkeyPatch) -> None:
    given.setenv("THING", "maybe")

    with pytest.raises(SettingError, match="THING='maybe' is neither true nor false"):
        conf.env_bool("THING", default=False)


def test_env_list_splits_at_commas(given: pytest.MonkeyPatch) -> None:
    assert conf.env_list("THING", ("a",)) == ["a"]
    given.setenv("THING", " a, b ,,c")
    assert conf.env_list("THING") == ["a", "b", "c"]


def test_env_path_knows_home_folder(given: pytest.MonkeyPatch, tmp_path: Path) -> None:
    given.setenv("HOME", str(tmp_path))
    given.setenv("THING", "~/data")

    assert conf.env_path("THING", Path("/x")) == tmp_path.resolve() / "data"


def test_env_secret_reads_file_first(given: pytest.MonkeyPatch, tmp_path: Path) -> None:
    given.setenv("THING", "from the environment")
    assert conf.env_secret("THING") == "from the environment"
    (tmp_path / "thing").write_text("from the file\n")
    given.setenv("THING_FILE", str(tmp_path / "thing"))
    assert conf.env_secret("THING") == "from the file"


def test_env_secret_names_file_that_cannot_be_read(given: pytest.MonkeyPatch, tmp_path: Path) -> None:
    given.setenv("THING_FILE", str(tmp_path / "absent"))

    with pytest.raises(SettingError, match=r"THING_FILE='.*absent' cannot be read: No such file"):
        conf.env_secret("THING")


def test_settings_in_force_are_recorded_with_secrets_masked(given: pytest.MonkeyPatch) -> None:
    given.setenv("THING", "7")
    conf.env_int("THING", 3, minimum=-9, maximum=9)
    assert conf.IN_FORCE["THING"] == "7"
    given.setenv("THING", "very secret")
    conf.env_secret("THING")
    assert conf.IN_FORCE["THING"] == conf.MASK
    given.setenv("THING", "a, b")
    conf.env_list("THING")
    assert conf.IN_FORCE["THING"] == "a, b"
