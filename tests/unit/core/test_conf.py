"""Settings readers: what they accept, and what they say about the rest."""

from pathlib import Path

import pytest

from convmemory.core import conf
from convmemory.core.errors import SettingError


@pytest.fixture
def environment(monkeypatch: pytest.MonkeyPatch) -> pytest.MonkeyPatch:
    for name in ("THING", "THING_FILE"):
        monkeypatch.delenv(name, raising=False)
    return monkeypatch


@pytest.mark.parametrize(("text", "value"), [("7", 7), (" 7 ", 7), ("", 3), ("-2", -2)])
def test_env_int_reads_whole_numbers(environment: pytest.MonkeyPatch, text: str, value: int) -> None:
    environment.setenv("THING", text)

    assert conf.env_int("THING", 3, minimum=-9, maximum=9) == value


def test_env_int_is_default_when_unset(environment: pytest.MonkeyPatch) -> None:
    assert conf.env_int("THING", 3, minimum=1, maximum=9) == 3


@pytest.mark.parametrize("text", ["seven", "7.5", "7 8", "0x7"])
def test_env_int_names_variable_and_value(environment: pytest.MonkeyPatch, text: str) -> None:
    environment.setenv("THING", text)

    with pytest.raises(SettingError, match=f"THING='{text}' is not a whole number"):
        conf.env_int("THING", 3, minimum=-9, maximum=9)


def test_env_int_refuses_less_than_minimum(environment: pytest.MonkeyPatch) -> None:
    environment.setenv("THING", "0")

    with pytest.raises(SettingError, match="THING=0 is too small: use 1 or more"):
        conf.env_int("THING", 3, minimum=1, maximum=9)


def test_env_int_refuses_more_than_maximum(environment: pytest.MonkeyPatch) -> None:
    environment.setenv("THING", "9")

    with pytest.raises(SettingError, match="THING=9 is too large: use 8 or less"):
        conf.env_int("THING", 3, minimum=1, maximum=8)


def test_env_float_reads_numbers(environment: pytest.MonkeyPatch) -> None:
    assert conf.env_float("THING", 1.5, minimum=0, maximum=4) == 1.5
    environment.setenv("THING", "2.5")
    assert conf.env_float("THING", 1.5, minimum=0, maximum=4) == 2.5
    environment.setenv("THING", "2,5")
    with pytest.raises(SettingError, match="THING='2,5' is not a number"):
        conf.env_float("THING", 1.5, minimum=0, maximum=4)


def test_env_float_refuses_what_is_out_of_range(environment: pytest.MonkeyPatch) -> None:
    for text in ("-0.1", "4.1", "nan", "inf"):
        environment.setenv("THING", text)
        with pytest.raises(SettingError, match=f"THING={text} is out of range: use a number from 0 to 4"):
            conf.env_float("THING", 1.5, minimum=0, maximum=4)


def test_env_choice_may_ignore_case(environment: pytest.MonkeyPatch) -> None:
    environment.setenv("THING", "warning")
    assert conf.env_choice("THING", "INFO", ("INFO", "WARNING"), ignore_case=True) == "WARNING"
    with pytest.raises(SettingError, match="THING='warning' is unknown: use INFO or WARNING"):
        conf.env_choice("THING", "INFO", ("INFO", "WARNING"))


def test_env_time_zone_knows_names(environment: pytest.MonkeyPatch) -> None:
    assert conf.env_time_zone("THING", "UTC") == "UTC"
    environment.setenv("THING", "Europe/Berlin")
    assert conf.env_time_zone("THING", "UTC") == "Europe/Berlin"
    for text in ("Mars/Olympus", "../etc/passwd", "CET+1"):
        environment.setenv("THING", text)
        with pytest.raises(SettingError, match="is no time zone"):
            conf.env_time_zone("THING", "UTC")


def test_env_share_is_above_0_and_at_most_1(environment: pytest.MonkeyPatch) -> None:
    environment.setenv("THING", "1")
    assert conf.env_share("THING", 0.5) == 1
    for text in ("0", "80", "-0.5", "nan"):
        environment.setenv("THING", text)
        with pytest.raises(SettingError, match="THING="):
            conf.env_share("THING", 0.5)


def test_env_seconds_is_above_0_and_at_most_hour(environment: pytest.MonkeyPatch) -> None:
    environment.setenv("THING", "0.3")
    assert conf.env_seconds("THING", 0.8) == 0.3
    for text in ("0", "-1", "3601", "nan", "inf"):
        environment.setenv("THING", text)
        with pytest.raises(SettingError, match="THING="):
            conf.env_seconds("THING", 0.8)


@pytest.mark.parametrize(
    ("text", "value"), [("1", True), ("TRUE", True), (" on ", True), ("0", False), ("No", False), ("", False)]
)
def test_env_bool_reads_usual_words(environment: pytest.MonkeyPatch, text: str, value: bool) -> None:
    environment.setenv("THING", text)

    assert conf.env_bool("THING", default=not value) is value


def test_env_bool_refuses_another_word(environment: pytest.MonkeyPatch) -> None:
    environment.setenv("THING", "maybe")

    with pytest.raises(SettingError, match="THING='maybe' is neither true nor false"):
        conf.env_bool("THING", default=False)


def test_env_list_splits_at_commas(environment: pytest.MonkeyPatch) -> None:
    assert conf.env_list("THING", ("a",)) == ["a"]
    environment.setenv("THING", " a, b ,,c")
    assert conf.env_list("THING") == ["a", "b", "c"]


def test_env_path_knows_home_folder(environment: pytest.MonkeyPatch, tmp_path: Path) -> None:
    environment.setenv("HOME", str(tmp_path))
    environment.setenv("THING", "~/data")

    assert conf.env_path("THING", Path("/x")) == tmp_path.resolve() / "data"


def test_env_secret_reads_file_first(environment: pytest.MonkeyPatch, tmp_path: Path) -> None:
    environment.setenv("THING", "from the environment")
    assert conf.env_secret("THING") == "from the environment"
    (tmp_path / "thing").write_text("from the file\n")
    environment.setenv("THING_FILE", str(tmp_path / "thing"))
    assert conf.env_secret("THING") == "from the file"


def test_env_secret_names_file_that_cannot_be_read(environment: pytest.MonkeyPatch, tmp_path: Path) -> None:
    environment.setenv("THING_FILE", str(tmp_path / "absent"))

    with pytest.raises(SettingError, match=r"THING_FILE='.*absent' cannot be read: No such file"):
        conf.env_secret("THING")


def test_settings_in_force_are_recorded_with_secrets_masked(environment: pytest.MonkeyPatch) -> None:
    environment.setenv("THING", "7")
    conf.env_int("THING", 3, minimum=-9, maximum=9)
    assert conf.IN_FORCE["THING"] == "7"
    environment.setenv("THING", "very secret")
    conf.env_secret("THING")
    assert conf.IN_FORCE["THING"] == conf.MASK
    environment.setenv("THING", "a, b")
    conf.env_list("THING")
    assert conf.IN_FORCE["THING"] == "a, b"
