"""The attackers of the trial: a user with a key and a session, and clients without an account.

`python -m tests.trials.hostile_attacks ADDRESS --seconds 20 ...` attacks a server on 127.0.0.1 with everything at
once and prints, as JSON, how often each attack was answered how. The process leads a session of the lowest priority, so
that what it costs itself does not count; its clients have addresses of their own, as other people's machines have.
"""

import argparse
import itertools
import json
import os
import random
import re
import socket
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import httpx2

from tests.trials import hostile_files

STRANGER, MALLORY = "127.0.0.66", "127.0.0.67"
BODY_MB = 600
CHUNK = b"x" * (1024 * 1024)
SLOW_CONNECTIONS = 200
HELD_PAGES, HELD_S = 60, 8.0
ADDRESSES = 10  # that hold them
WITHHELD_BODIES = 1_010  # more than MAX_CONCURRENT_REQUESTS
LONG_QUERY = " ".join(f'word{n} "a phrase" -not{n}' for n in range(40))[:500]
SLOW_FILES = 4  # of each kind in a phase: what they keep busy ends before the next quiet phase
MAX_ROUNDS = 2_000  # of each attack in each of its threads
TIMEOUT_S = 15.0


@dataclass
class Attack:
    """Whom to attack and until when; `outcomes` counts attacks by status, or by the error that ended them."""

    address: str
    key: str
    cookies: dict[str, str]
    victim: str
    shared_page: str
    until: float
    outcomes: Counter[str] = field(default_factory=Counter)

    def client(self, source: str, **options: Any) -> httpx2.Client:
        local = source if sys.platform == "linux" else "127.0.0.1"
        transport = httpx2.HTTPTransport(local_address=local)
        return httpx2.Client(base_url=self.address, transport=transport, timeout=TIMEOUT_S, **options)

    def as_user(self) -> httpx2.Client:
        return self.client(MALLORY, headers={"Authorization": f"Bearer {self.key}"})

    def in_browser(self) -> httpx2.Client:
        return self.client(MALLORY, cookies=self.cookies)

    def rounds(self) -> Iterator[int]:
        """Numbers until the time is over."""
        return itertools.takewhile(lambda _: time.monotonic() < self.until, range(MAX_ROUNDS))

    def send(self, name: str, client: httpx2.Client, method: str, path: str, **options: Any) -> httpx2.Response | None:
        """Send a request and count what became of it; what an attacker gets back is no error of the trial."""
        try:
            response = client.request(method, path, **options)
        except (httpx2.HTTPError, OSError) as error:
            self.outcomes[f"{name}: {type(error).__name__}"] += 1
            return None
        self.outcomes[f"{name}: {response.status_code}"] += 1
        return response


def upload_bombs(attack: Attack) -> None:
    with attack.as_user() as client:
        for number in attack.rounds():
            file = hostile_files.BOMBS[number % len(hostile_files.BOMBS)]()
            attack.send("bombs", client, "POST", "/api/v1/imports", files={"file": file}, data={"wait": "2"})


def import_much(attack: Attack) -> None:
    with attack.as_user() as client:
        for number in attack.rounds():
            name, data = hostile_files.many_messages()
            form = {"files": {"file": (f"{number}-{name}", data)}, "data": {"wait": "2"}}
            attack.send("24,000 messages", client, "POST", "/api/v1/imports", **form)
            time.sleep(1)


def search_all_the_time(attack: Attack) -> None:
    modes = ("hybrid", "semantic", "full_text")
    with attack.as_user() as client:
        for number in attack.rounds():
            query = {"query": LONG_QUERY[number % 50 :], "limit": 50, "mode": modes[number % 3]}
            attack.send("searches", client, "GET", "/api/v1/conversations/search", params=query)


def recall_all_the_time(attack: Attack) -> None:
    with attack.as_user() as client:
        for number in attack.rounds():
            body = {"query": LONG_QUERY[number % 50 :], "top_k": 50, "max_tokens": 20_000}
            attack.send("recalls", client, "POST", "/api/v1/memory/recall", json=body)


def open_heavy_pages(attack: Attack) -> None:
    """Conversations whose text is dear to render and to mark, made over the API and opened in a browser."""
    texts = ("![" * 5_000, "`" * 50_000, " " * 100_000 + "x", "**_" * 20_000, "a1" * 100_000)
    with attack.as_user() as program, attack.in_browser() as browser:
        for number in attack.rounds():
            said = [{"role": "user", "content": "so? " + texts[number % len(texts)]}]
            said.append({"role": "assistant", "content": texts[(number + 1) % len(texts)]})
            made = attack.send("heavy texts", program, "POST", "/api/v1/conversations", json={"messages": said})
            if made is not None and made.status_code == 201:
                attack.send("heavy pages", browser, "GET", f"/conversations/{made.json()['id']}?turn=0&q=so")


def make_keys(attack: Attack) -> None:
    with attack.in_browser() as browser:
        for number in attack.rounds():
            token = _form_token(browser, "/settings/keys")
            form = {"csrfmiddlewaretoken": token, "name": f"key {number}"}
            attack.send("keys", browser, "POST", "/settings/keys", data=form)
            time.sleep(0.1)


def invite_to_spaces(attack: Attack) -> None:
    """Make spaces, and invite the victim to each."""
    with attack.in_browser() as browser:
        for number in attack.rounds():
            token = _form_token(browser, "/spaces")
            form = {"csrfmiddlewaretoken": token, "name": f"space {number}"}
            made = attack.send("spaces", browser, "POST", "/spaces", data=form)
            if made is not None and made.status_code == 302:
                form = {"csrfmiddlewaretoken": token, "action": "invite", "username": attack.victim, "role": "reader"}
                attack.send("invitations", browser, "POST", made.headers["Location"], data=form)
            time.sleep(0.1)


def ask_with_nul(attack: Attack) -> None:
    paths = (
        "/api/v1/conversations?agent=%00", "/api/v1/conversations?project=a%00b", "/api/v1/conversations?cursor=%00",
        "/api/v1/conversations/search?query=a%00b", "/api/v1/conversations/search?query=ab&agent=%00",
        "/api/v1/tools/%00", "/api/v1/imports/99999999999999999999", "/api/v1/conversations/99999999999999999999",
    )  # fmt: skip
    pages = ("/search?q=%00&agent=%00", "/search?q=ab&project=%00&after=%00", "/recall?query=%00", "/login?next=%00")
    with attack.as_user() as program, attack.in_browser() as browser:
        for number in attack.rounds():
            attack.send("NUL", program, "GET", paths[number % len(paths)])
            attack.send("NUL", browser, "GET", pages[number % len(pages)])
            time.sleep(0.05)


def guess_passwords(attack: Attack) -> None:
    with attack.client(STRANGER) as client:
        for number in attack.rounds():
            name = attack.victim if number % 2 else f"somebody{random.randrange(10_000)}"
            form = {"csrfmiddlewaretoken": _form_token(client, "/login"), "username": name, "password": f"no {number}"}
            attack.send("passwords", client, "POST", "/login", data=form)


def guess_keys(attack: Attack) -> None:
    with attack.client(STRANGER) as client:
        for number in attack.rounds():
            headers = {"Authorization": f"Bearer cvm_{number:043d}"}
            attack.send("wrong keys", client, "GET", "/api/v1/conversations", headers=headers)
            attack.send("wrong keys", client, "POST", "/mcp", json={}, headers=headers)
            time.sleep(0.02)


def post_large_bodies(attack: Attack) -> None:
    addresses = ("/login", "/api/v1/imports", "/mcp", "/import", "/api/v1/conversations")
    with attack.client(STRANGER) as client:
        for number in attack.rounds():
            attack.send("600 MB", client, "POST", addresses[number % len(addresses)], content=_large_body(attack))


def _large_body(attack: Attack) -> Iterator[bytes]:
    for _ in range(BODY_MB):
        if time.monotonic() > attack.until:
            return
        yield CHUNK


def hold_connections(attack: Attack) -> None:
    """Heads that never end, a byte a second."""
    where = urlsplit(attack.address)
    open_sockets: list[socket.socket] = []
    source = (STRANGER, 0) if sys.platform == "linux" else None
    try:
        for number in attack.rounds():
            if len(open_sockets) < SLOW_CONNECTIONS:
                made = socket.create_connection((where.hostname, where.port), timeout=5, source_address=source)
                made.sendall(b"POST /login HTTP/1.1\r\nHost: x\r\nX: ")
                open_sockets.append(made)
                attack.outcomes["slow connections: held"] += 1
                continue
            open_sockets[:] = [one for one in open_sockets if _is_open(one)]
            attack.outcomes["slow connections: closed by the server"] = number - len(open_sockets)
            time.sleep(1)
    except OSError as error:
        attack.outcomes[f"slow connections: {type(error).__name__}"] += 1
    finally:
        for one in open_sockets:
            one.close()


def withhold_bodies(attack: Attack) -> None:
    """Keep more requests open than a process may handle, each of which announces a body that never comes."""
    where = urlsplit(attack.address)
    open_sockets: list[socket.socket] = []
    source = (STRANGER, 0) if sys.platform == "linux" else None
    try:
        while time.monotonic() < attack.until:
            while len(open_sockets) < WITHHELD_BODIES and time.monotonic() < attack.until:
                made = socket.create_connection((where.hostname, where.port), timeout=5, source_address=source)
                made.sendall(b"POST /static/x HTTP/1.1\r\nHost: x\r\nContent-Length: 1000\r\n\r\n")
                open_sockets.append(made)
                attack.outcomes["withheld bodies: sent"] += 1
            time.sleep(1)
            kept = [one for one in open_sockets if not _has_answer(one)]
            for one in set(open_sockets) - set(kept):
                one.close()
            attack.outcomes["withheld bodies: answered"] += len(open_sockets) - len(kept)
            open_sockets[:] = kept
    except OSError as error:
        attack.outcomes[f"withheld bodies: {type(error).__name__}"] += 1
    finally:
        for one in open_sockets:
            one.close()


def hold_shared_pages(attack: Attack) -> None:
    """Ask for a long shared page from many addresses, read nothing, and leave after a while, again and again."""
    where = urlsplit(attack.address)
    for _ in attack.rounds():
        open_sockets = []
        try:
            for number in range(HELD_PAGES):
                source = (f"127.0.0.{70 + number % ADDRESSES}", 0) if sys.platform == "linux" else None
                made = socket.create_connection((where.hostname, where.port), timeout=5, source_address=source)
                made.sendall(f"GET {attack.shared_page} HTTP/1.1\r\nHost: {where.hostname}\r\n\r\n".encode())
                open_sockets.append(made)
            time.sleep(HELD_S)
            begun = sum(map(_has_answer, open_sockets))
            attack.outcomes["shared pages: unread"] += begun
            attack.outcomes["shared pages: waiting"] += len(open_sockets) - begun
        except OSError as error:
            attack.outcomes[f"shared pages: {type(error).__name__}"] += 1
        finally:
            for one in open_sockets:
                one.close()


def read_shared_pages(attack: Attack) -> None:
    with attack.client(STRANGER) as client:
        for _ in attack.rounds():
            attack.send("shared pages", client, "GET", attack.shared_page)


def share_page(address: str, key: str) -> str:
    """Make a conversation of some megabytes, and return the path of a link to it for readers without an account."""
    said = [{"role": ("user", "assistant")[n % 2], "content": "Some **long** text. " * 2_000} for n in range(140)]
    with httpx2.Client(base_url=address, headers={"Authorization": f"Bearer {key}"}, timeout=60) as client:
        made = client.post("/api/v1/conversations", json={"title": "Long", "messages": said}).raise_for_status()
        path = f"/api/v1/conversations/{made.json()['id']}/share_links"
        link = client.post(path, json={"audience": "anybody", "days": 1}).raise_for_status()
    return urlsplit(str(link.json()["url"])).path


def _has_answer(connection: socket.socket) -> bool:
    connection.setblocking(False)  # with a timeout, Python waits for it whatever the flags of recv() say
    try:
        connection.recv(1, socket.MSG_PEEK)
    except BlockingIOError:
        return False
    except OSError:
        pass  # closed by the server
    return True


def _is_open(connection: socket.socket) -> bool:
    try:
        connection.sendall(b"x")
    except OSError:
        return False
    return True


def _form_token(client: httpx2.Client, page: str) -> str:
    try:
        found = re.search(r'name="csrfmiddlewaretoken" value="(\w+)"', client.get(page).text)
    except (httpx2.HTTPError, OSError):
        return ""
    return found[1] if found else ""


def upload_slow_documents(attack: Attack) -> None:
    """Few small documents that take as long as they may, and as much memory."""
    with attack.as_user() as client:
        for number in itertools.islice(attack.rounds(), SLOW_FILES):
            for name, data in (hostile_files.slow_document(number), hostile_files.far_cells(number)):
                attack.send("slow documents", client, "POST", "/api/v1/documents", files={"file": (name, data)})
            time.sleep(1)


def import_slow_databases(attack: Attack) -> None:
    with attack.as_user() as client:
        for number in itertools.islice(attack.rounds(), SLOW_FILES):
            name, data = hostile_files.hanging_database()
            form = {"files": {"file": (f"{number}-{name}", data)}, "data": {"wait": "1"}}
            attack.send("hanging databases", client, "POST", "/api/v1/imports", **form)


def open_undrawn_pages(attack: Attack) -> None:
    """Open pages that take minutes to draw, again and again."""
    with attack.as_user() as program, attack.in_browser() as browser:
        numbers: list[int] = []
        for number in attack.rounds():
            if number < SLOW_FILES:
                name, data = hostile_files.undrawable_page(number)
                made = attack.send("undrawn pages", program, "POST", "/api/v1/documents", files={"file": (name, data)})
                numbers += [made.json()["id"]] if made is not None and made.status_code == 202 else []
            for document in numbers:
                attack.send("undrawn pages", browser, "GET", f"/documents/{document}/pages/1")


PLAN: dict[Callable[[Attack], None], int] = {
    upload_bombs: 2, import_much: 1, search_all_the_time: 20, recall_all_the_time: 4, open_heavy_pages: 2,
    make_keys: 1, invite_to_spaces: 1, ask_with_nul: 1, guess_passwords: 8, guess_keys: 2, post_large_bodies: 2,
    hold_connections: 1, withhold_bodies: 1, upload_slow_documents: 1, import_slow_databases: 1, open_undrawn_pages: 1,
    hold_shared_pages: 1, read_shared_pages: 40,
}  # fmt: skip


def sign_in(address: str, name: str, password: str) -> dict[str, str]:
    """Sign in, and return the cookies."""
    with httpx2.Client(base_url=address, timeout=TIMEOUT_S) as client:
        form = {"csrfmiddlewaretoken": _form_token(client, "/login"), "username": name, "password": password}
        response = client.post("/login", data=form)
        assert response.status_code == 302, response.status_code
        return dict(client.cookies)


def _take_idle_time_only() -> None:
    """Lower the priority of this process and of its session, which Linux weighs first (sched(7), autogroup)."""
    os.nice(19)
    autogroup = Path("/proc/self/autogroup")
    if autogroup.exists():
        autogroup.write_text("19", encoding="ascii")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("address")
    parser.add_argument("--key", required=True)
    parser.add_argument("--cookies", type=json.loads, required=True)
    parser.add_argument("--victim", required=True)
    parser.add_argument("--page", required=True, help="the path of a long shared page")
    parser.add_argument("--seconds", type=float, default=20)
    parser.add_argument("--only", nargs="*", choices=sorted(run.__name__ for run in PLAN), help="these attacks alone")
    options = parser.parse_args()
    assert urlsplit(options.address).hostname == "127.0.0.1", "only this machine's own server is attacked"
    _take_idle_time_only()
    hostile_files.many_messages()
    for file in hostile_files.BOMBS:
        file()
    print("ready", flush=True)
    sys.stdin.readline()
    until = time.monotonic() + options.seconds
    attack = Attack(options.address, options.key, options.cookies, options.victim, options.page, until)
    plan = {run: threads for run, threads in PLAN.items() if not options.only or run.__name__ in options.only}
    with ThreadPoolExecutor(sum(plan.values())) as pool:
        running = [pool.submit(run, attack) for run, threads in plan.items() for _ in range(threads)]
    for one in running:
        one.result()
    print(json.dumps(attack.outcomes))


if __name__ == "__main__":
    main()
