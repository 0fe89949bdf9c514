"""Problems that are reported for a database server that convmemory cannot use."""

import pytest

from convmemory.core.postgres.validation import server_problems


@pytest.mark.parametrize(
    ("server", "installed", "available", "ids"),
    [
        (18, None, "0.8.5", []),
        (15, "0.8.0", "0.8.0", []),
        (14, None, "0.8.0", ["convmemory.E002"]),
        (16, None, None, ["convmemory.E003"]),
        (16, None, "0.7.4", ["convmemory.E004"]),
        (16, "0.7.4", "0.8.1", ["convmemory.E004"]),
        (16, None, "0.10.0", []),
        (13, None, None, ["convmemory.E002", "convmemory.E003"]),
    ],
)
def test_unsupported_server_or_pgvector_version_is_reported(
    server: int, installed: str | None, available: str | None, ids: list[str]
) -> None:
    problems = server_problems(server, installed, available)

    assert [problem.id for problem in problems] == ids
    assert all(problem.hint for problem in problems)
