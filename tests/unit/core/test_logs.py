"""Log lines: JSON or plain, with the ids of request and task, without the values of rows."""

import json
import logging

import pytest

from convmemory.core import conf, logs
from convmemory.core.errors import SettingError
from convmemory.core.logs import JsonFormatter, PlainFormatter

SECRET = "recipe"[::-1]  # not as it stands in the stack's line of source
REFUSAL = "null value in column\nDETAIL:  Failing row contains (1, {}).\n"


def record(message: str, error: BaseException | None = None, **extra: object) -> logging.LogRecord:
    info = (type(error), error, error.__traceback__) if error else None
    made = logging.LogRecord("search", logging.WARNING, __file__, 1, message, (), info)
    made.__dict__.update(extra)
    return made


def failed() -> BaseException:
    try:
        raise ValueError(REFUSAL.format(SECRET))
    except ValueError as error:
        return error


def test_json_line_has_time_level_ids_and_fields() -> None:
    tokens = logs.request_id.set("req-12345"), logs.task_id.set("task1")
    line = JsonFormatter().format(record("It\nends", fields={"status": 200}))
    logs.request_id.reset(tokens[0])
    logs.task_id.reset(tokens[1])
    assert "\n" not in line
    values = json.loads(line)
    assert values["time"].endswith("+00:00")
    assert (values["level"], values["logger"], values["message"]) == ("WARNING", "search", "It\nends")
    assert (values["request_id"], values["task_id"], values["status"]) == ("req-12345", "task1", 200)


@pytest.mark.parametrize("formatter", [JsonFormatter(), PlainFormatter()])
def test_exception_keeps_its_stack_and_loses_values_of_rows(formatter: logging.Formatter) -> None:
    line = formatter.format(record("failed", failed()))
    assert "test_logs.py" in line
    assert "ValueError: (message left out)" in line
    assert SECRET not in line


def test_plain_line_names_request_only_within_one() -> None:
    assert PlainFormatter().format(record("ends")) == "WARNING search: ends"
    token = logs.request_id.set("req-12345")
    assert PlainFormatter().format(record("ends")) == "WARNING search: ends [request_id=req-12345]"
    logs.request_id.reset(token)


@pytest.mark.parametrize(
    ("request_id", "kept"),
    [
        ("abc-123.DEF_4", True),
        ("short", False),
        ("x" * 65, False),
        ("with space in", False),
        ("line\nbreak1", False),
        ("", False),
    ],
)
def test_only_fit_request_id_is_taken_over(request_id: str, kept: bool) -> None:
    accepted = logs.accepted_request_id(request_id)
    assert (accepted == request_id) == kept
    assert len(accepted) >= 8


def test_unknown_format_names_known_ones(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LOG_FORMAT", "xml")
    with pytest.raises(SettingError, match="plain or json"):
        conf.env_choice("LOG_FORMAT", "plain", ("plain", "json"))
