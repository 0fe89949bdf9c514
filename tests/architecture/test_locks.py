"""Installed packages are the reviewed ones: every package is pinned by hash, and the audit fails when it must."""

import json
import os
import re
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from importlib import metadata
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
from packaging.version import Version

ROOT = Path(__file__).resolve().parents[2]
NAMES = ("requirements", "requirements-model", "requirements-extras", "requirements-dev")
PIN = re.compile(r"^(?P<name>[a-z0-9-]+)==(?P<version>[^\s;]+)(?P<marker> ; .+)? \\$")
HASH = re.compile(r"^    --hash=sha256:[0-9a-f]{64}(?: \\)?$")

Pins = dict[str, set[str]]


def requirements(name: str) -> list[Requirement]:
    """Return the requirements of the file itself, without those of included files."""
    lines = (ROOT / f"{name}.txt").read_text().splitlines()
    return [Requirement(line) for line in lines if line and not line.startswith(("#", "-r "))]


def pins(name: str) -> Pins:
    """Versions by package. Fails where a line is neither a pin, nor a hash of the one above, nor a comment."""
    found: Pins = {}
    hashes = 1
    for line in (ROOT / f"{name}.lock").read_text().splitlines():
        if match := PIN.match(line):
            assert hashes, f"no hash before {line}"
            hashes = 0
            found.setdefault(match["name"], set()).add(match["version"])
        elif HASH.match(line):
            hashes += 1
        else:
            assert line.lstrip().startswith("#"), f"{name}.lock: {line}"
    assert hashes
    return found


@pytest.mark.parametrize("name", NAMES)
def test_every_requirement_is_locked_with_hashes(name: str) -> None:
    locked = pins(name)
    wanted = requirements(name)
    assert wanted
    for requirement in wanted:
        versions = locked.get(canonicalize_name(requirement.name), set())
        assert versions, f"{requirement} is not in {name}.lock: run `make lock`"
        assert all(requirement.specifier.contains(Version(version)) for version in versions), (requirement, versions)


def test_transitive_requirements_are_locked() -> None:
    locked = pins("requirements")
    missing = {
        f"{name} needs {requirement}"
        for name in locked
        for requirement in _needs(name)
        if canonicalize_name(requirement.name) not in locked
    }
    assert not missing


def _needs(name: str) -> list[Requirement]:
    """Return the requirements of an installed package on this machine; none of a package for other machines only."""
    try:
        lines = metadata.requires(name) or []
    except metadata.PackageNotFoundError:
        return []
    found = map(Requirement, lines)
    return [one for one in found if one.marker is None or one.marker.evaluate({"extra": ""})]


def test_tests_run_against_versions_that_are_installed_to_run() -> None:
    run, dev = pins("requirements") | pins("requirements-extras"), pins("requirements-dev")
    assert run == {name: dev.get(name) for name in run}


@pytest.mark.parametrize("name", NAMES)
def test_lock_names_no_index(name: str) -> None:
    text = (ROOT / f"{name}.lock").read_text()
    assert not re.search(r"://|--(?:extra-)?index-url|--find-links", text)


def test_make_installs_only_what_has_hash() -> None:
    makefile = (ROOT / "Makefile").read_text()
    (install,) = re.findall(r"^.*\bpip\b.* install\b.*$", makefile, re.MULTILINE)
    assert install.startswith("PIP := ")
    assert "--require-hashes" in install
    files = re.findall(r"\$\(PIP\).* -r (\S+)", makefile)
    assert sorted(files) == sorted(f"{name}.lock" for name in NAMES)


def _advisory(package: str) -> dict[str, object]:
    affected = {"package": {"name": package, "ecosystem": "PyPI"}}
    return {"id": "TEST-2026-1", "summary": "A hole.", "affected": [affected]}


@contextmanager
def advisory_feed(holes: tuple[str, ...] = (), status: int = 200) -> Iterator[str]:
    """A feed in the shape of OSV's that knows a hole in each of the packages."""

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            question = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            package = question["package"]["name"]
            answer = json.dumps({"vulns": [_advisory(package)]} if package in holes else {}).encode()
            self.send_response(status)
            self.send_header("Content-Length", str(len(answer)))
            self.end_headers()
            self.wfile.write(answer)

        def log_message(self, format: str, *args: object) -> None:
            """Keep the test's output clean."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}/v1/query"
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


def audit(feed: str, lock: Path, *options: str) -> tuple[int, str]:
    command = [sys.executable, ".ci/audit.py", str(lock), *options]
    done = subprocess.run(
        command, cwd=ROOT, env=os.environ | {"PIP_AUDIT_OSV_URL": feed}, capture_output=True, text=True, check=False
    )
    return done.returncode, done.stdout + done.stderr


@pytest.fixture
def lock(tmp_path: Path) -> Path:
    path = tmp_path / "some.lock"
    pins = ("good==1.0", "elsewhere==2.0 ; sys_platform == 'plan9'")
    path.write_text("".join(f"{pin} \\\n    --hash=sha256:0\n" for pin in pins))
    return path


def test_audit_fails_on_known_hole_even_of_another_platform(lock: Path) -> None:
    with advisory_feed(holes=("elsewhere",)) as feed:
        code, said = audit(feed, lock)
        accepted, _ = audit(feed, lock, "--", "--ignore-vuln", "TEST-2026-1")
    assert code == 1
    assert "TEST-2026-1" in said
    assert accepted == 0


@pytest.mark.slow
def test_audit_passes_where_no_hole_is_known(lock: Path) -> None:
    with advisory_feed() as feed:
        code, said = audit(feed, lock)
    assert code == 0
    assert "No known vulnerabilities found" in said


@pytest.mark.slow
def test_audit_with_unreachable_feed_passes_with_notice(lock: Path) -> None:
    with advisory_feed(status=503) as feed:
        out_of_order = audit(feed, lock)
    gone = audit(feed, lock)
    for code, said in (out_of_order, gone):
        assert code == 0
        assert "advisory feed not reached: not audited" in said


def test_audit_of_lock_without_pins_fails(tmp_path: Path) -> None:
    empty = tmp_path / "empty.lock"
    empty.write_text("# nothing\n")
    with advisory_feed() as feed:
        code, said = audit(feed, empty)
    assert code == 1
    assert "no pins" in said
