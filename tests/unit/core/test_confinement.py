"""Processes that read foreign data reach their input and their working folder, and nothing else."""

import json
import os
import socket
import subprocess
import sys
from dataclasses import asdict
from pathlib import Path

import pytest

from convmemory.core.processes import confinement
from convmemory.documents.converters.base import ConvertLimits
from convmemory.documents.converting import read_heading
from tests.support.documents import GUIDE, docx_of, email_of, epub_of, pdf_of, pptx_of, xlsx_of

ROOT = Path(confinement.__file__).parents[3]
PREAMBLE = """
import ctypes, os, signal, socket, subprocess, sys, tempfile
from pathlib import Path
from convmemory.core.processes.confinement import Access, confine_this_process
folder, place, opened = Path(sys.argv[1]), sys.argv[2], socket.socket(socket.AF_UNIX)
confine_this_process(Access([folder / "input"], [folder / "work"]{options}))
"""
ATTEMPTS = {
    "read a secret": "Path(place).read_bytes()",
    "list the folder of the installation": "os.listdir(Path(place).parent)",
    "read the input's neighbour": "(folder / 'neighbour').read_bytes()",
    "change the input": "(folder / 'input').write_bytes(b'x')",
    "write outside": "(folder / 'new').write_bytes(b'x')",
    "move a file out": "(folder / 'work' / 'a').write_bytes(b'x'); os.rename(folder / 'work' / 'a', folder / 'a')",
    "open a secret to others": "os.chmod(place, 0o644)",
    "read the environment of the parent": "Path(f'/proc/{os.getppid()}/environ').read_bytes()",
    "open a Unix socket": "socket.socket(socket.AF_UNIX)",
    "open a pair of sockets": "socket.socketpair()",
    "open a TCP socket": "socket.socket(socket.AF_INET)",
    "open a UDP socket": "socket.socket(socket.AF_INET6, socket.SOCK_DGRAM)",
    "connect a socket that was open before": "opened.connect(place)",
    "listen on a socket that was open before": "opened.listen()",
    "signal the parent": "os.kill(os.getppid(), 0)",
    "start a program": "subprocess.run(['/bin/true'])",
    "set up io_uring": "assert ctypes.CDLL(None, use_errno=True).syscall(425, 8, bytes(120)) < 0; "
    "raise PermissionError(ctypes.get_errno()) if ctypes.get_errno() == 1 else SystemExit('no')",
    "trace the parent": "libc = ctypes.CDLL(None, use_errno=True); assert libc.ptrace(16, os.getppid(), 0, 0) < 0; "
    "raise PermissionError(ctypes.get_errno()) if ctypes.get_errno() == 1 else SystemExit('no')",
    "limit the parent": "import resource; resource.prlimit(os.getppid(), resource.RLIMIT_NOFILE, (3, 3))",
}
FILES = {
    "guide.md": GUIDE.encode(),
    "code.py": b"def first():\n    return 1\n\n\ndef second():\n    return 2\n",
    "paper.pdf": pdf_of([[(24, "Title"), (12, "one")], [(12, "two")]]),
    "letter.docx": docx_of(("Heading 1", "Title"), ("Normal", "text")),
    "talk.pptx": pptx_of(("Title", "text")),
    "table.xlsx": xlsx_of(Sheet=[["name", "count"], ["a", 1]]),
    "book.epub": epub_of(one="<h1>One</h1><p>text</p>"),
    "page.html": b"<html><h1>Title</h1><p>text</p></html>",
    "mail.eml": email_of("Subject", "text"),
    "values.csv": b"name,count\na,1\n",
}

pytestmark = pytest.mark.skipif(bool(confinement.missing_parts()), reason="this kernel cannot confine processes")


def run_confined(
    tmp_path: Path, code: str, path: Path | str = "", *, options: str = ""
) -> subprocess.CompletedProcess[str]:
    (tmp_path / "work").mkdir()
    (tmp_path / "input").write_bytes(b"input")
    (tmp_path / "neighbour").write_bytes(b"another's")
    return subprocess.run(
        [sys.executable, "-c", PREAMBLE.format(options=options) + code, str(tmp_path), str(path)],
        cwd=ROOT, capture_output=True, text=True, check=False, timeout=60,
    )  # fmt: skip


@pytest.mark.parametrize("attempt", ATTEMPTS)
def test_hostile_code_in_confined_process_is_refused(tmp_path: Path, attempt: str) -> None:
    secret = tmp_path / "var" / "secret_key"
    secret.parent.mkdir()
    secret.write_text("secret")
    done = run_confined(tmp_path, ATTEMPTS[attempt], secret)
    assert done.stderr.splitlines()[-1].startswith("PermissionError"), done.stderr + done.stdout
    assert secret.stat().st_mode & 0o077 == os.stat(tmp_path / "neighbour").st_mode & 0o077


def test_confined_process_cannot_connect_to_listening_server(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        code = f"socket.create_connection(('127.0.0.1', {server.getsockname()[1]}), timeout=2)"
        done = run_confined(tmp_path, code)
    assert "PermissionError" in done.stderr


def test_folder_of_installation_cannot_be_listed(tmp_path: Path) -> None:
    done = run_confined(tmp_path, "os.listdir(place)", ROOT)
    assert "PermissionError" in done.stderr


def test_confined_process_reads_its_input_and_writes_its_folder(tmp_path: Path) -> None:
    code = """
import datetime, importlib.metadata, lxml.etree, mimetypes, pypdfium2, python_calamine, zoneinfo, threading
assert (folder / "input").read_bytes() == b"input"
with tempfile.NamedTemporaryFile() as file:
    assert Path(file.name).is_relative_to(folder / "work")
(folder / "work" / "a").mkdir()
(folder / "work" / "a" / "b").write_bytes(os.urandom(3))
os.rename(folder / "work" / "a" / "b", folder / "work" / "c")
Path(os.devnull).write_bytes(b"x")
Path("/proc/self/status").read_bytes()
datetime.datetime.now().astimezone()
thread = threading.Thread(target=os.getpid)
thread.start()
thread.join()
print("done", os.cpu_count())
"""
    done = run_confined(tmp_path, code)
    assert done.stdout.startswith("done"), done.stderr


def test_process_that_may_start_programs_reaches_no_more_with_them(tmp_path: Path) -> None:
    secret = tmp_path / "secret_key"
    secret.write_text("secret")
    code = """
sleeping = subprocess.Popen(["sleep", "60"])
sleeping.kill()
print(sleeping.wait(), subprocess.run(["cat", place], capture_output=True).returncode)
os.kill(os.getppid(), 0)
"""
    done = run_confined(tmp_path, code, secret, options=", programs=True")
    assert (done.stdout, done.stderr.splitlines()[-1][:15]) == ("-9 1\n", "PermissionError")


@pytest.mark.parametrize("name", FILES)
def test_every_format_is_converted_in_confined_process(tmp_path: Path, name: str) -> None:
    source, target = tmp_path / "digest", tmp_path / "work" / "sections.jsonl"
    target.parent.mkdir()
    source.write_bytes(FILES[name])
    run_child("convmemory.documents.converting", source, name, target, json.dumps(asdict(ConvertLimits())))
    with target.open(encoding="utf-8") as lines:
        heading = read_heading(next(lines))
    assert (heading.failure, heading.error) == ("", "")
    assert heading.chars


def test_pages_are_drawn_in_confined_process(tmp_path: Path) -> None:
    source, folder = tmp_path / "digest", tmp_path / "pictures"
    folder.mkdir()
    source.write_bytes(FILES["paper.pdf"])
    run_child("convmemory.documents.draw_child", source, 1, 2, folder)
    assert sorted(path.name for path in folder.iterdir()) == ["1.json", "1.webp", "2.json", "2.webp"]


def run_child(module: str, *arguments: object) -> None:
    limits = (512, 60, os.getpid())
    command = [sys.executable, "-m", module, *map(str, (*arguments, *limits))]
    subprocess.run(command, cwd=ROOT, check=True, timeout=60)
