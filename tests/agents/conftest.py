"""The product, a scripted model, and the table of what each agent did, printed after the run."""

from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from tests.agents.programs import KEY, PROGRAMS
from tests.agents.scripted_model import answer
from tests.support.chat_server import MODEL, ChatServer, running_chat_server
from tests.support.installation import Installation, running_installation

STEPS = (
    *("connect", "hook", "tool call", "end", "import", "resume", "same start", "sub-folder", "worktree"),
    *("machine", "namesake", "steering", "Chinese", "failure", "no client", "disconnect", "proxy"),
)
RESULTS: dict[str, dict[str, str]] = defaultdict(dict)


@dataclass(slots=True)
class Steps:
    """The outcome of each step of one agent. A failed step does not end the test, so that the table is whole."""

    slug: str
    failures: list[str] = field(default_factory=list)

    @contextmanager
    def step(self, name: str) -> Iterator[None]:
        RESULTS[self.slug][name] = "ok"
        try:
            yield
        except Exception as error:
            RESULTS[self.slug][name] = "FAILED"
            self.failures.append("\n".join([f"{name}: {error}", *getattr(error, "__notes__", ())]))


@pytest.fixture(scope="session")
def endpoint() -> Iterator[ChatServer]:
    with running_chat_server(key=KEY, otherwise=answer) as server:
        yield server


@pytest.fixture(scope="session")
def product(tmp_path_factory: pytest.TempPathFactory, endpoint: ChatServer) -> Iterator[Installation]:
    chat = {"CHAT_BASE_URL": endpoint.url, "CHAT_API_KEY": KEY, "CHAT_MODEL": MODEL}
    with running_installation(tmp_path_factory.mktemp("product"), {"LOG_LEVEL": "WARNING", **chat}) as installation:
        installation.wait_until_idle()  # it embeds the samples first
        yield installation


@pytest.fixture
def model(endpoint: ChatServer, tmp_path: Path) -> Iterator[ChatServer]:
    """The model's server without requests; what it is sent is kept next to the home folder."""
    endpoint.requests.clear()
    endpoint.bodies.clear()
    yield endpoint
    (tmp_path / "requests.jsonl").write_bytes(b"\n".join(endpoint.bodies))


def pytest_terminal_summary(terminalreporter: Any) -> None:
    if not RESULTS:
        return
    write = terminalreporter.write_line
    write("")
    write("".join(name.ljust(24 if not at else 11) for at, name in enumerate(("agent", *STEPS))).rstrip())
    for program in PROGRAMS:
        found = RESULTS.get(program.slug)
        if found:
            named = f"{program.slug} {found['version']}"
            write("".join([named.ljust(24), *(found.get(step, "-").ljust(11) for step in STEPS)]).rstrip())
