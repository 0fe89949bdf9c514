"""A trial, not a test: two web processes are restarted one after the other under load, as an update does.

`make rolling-restart` starts PostgreSQL, a worker and two web processes on scratch folders, sends 20 requests a
second (pages, searches, new conversations) and keeps chat streams open. Requests go to the processes whose `/ready`
answers 200, as a load balancer sends them, without a second try; with `--caddy PROGRAM` they go through that Caddy,
configured by `deploy/Caddyfile`. It ends with 1 if a request failed or a stream did not reach its end, and
then prints the errors in the logs of all processes.
"""

import argparse
import asyncio
import contextlib
import itertools
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from statistics import quantiles

import httpx2

from tests.support.chat_server import Pause, Say, Script, running_chat_server
from tests.support.fleet import ROOT, Fleet, conversation, fleet, free_port
from tests.support.patience import wait_until

REQUESTS_PER_S = 20
STREAMS = 8
STREAM_S = 12.0
PROBE_S = 2.0  # as `health_interval` in deploy/Caddyfile
CALM_S = 5.0  # before, between and after the restarts
TALK = Script(tuple(itertools.chain.from_iterable((Say(f"word {n} "), Pause(STREAM_S / 40)) for n in range(40))))


@dataclass(slots=True)
class Load:
    """The requests and streams of two people, and how they ended."""

    made: Fleet
    drain_s: int
    proxy: str = ""
    ready: set[str] = field(default_factory=set)
    seconds: list[float] = field(default_factory=list)
    streams: int = 0
    failures: list[str] = field(default_factory=list)
    over: bool = False
    turn: int = 0

    def target(self) -> str:
        """Return the proxy, or the next web process that is ready."""
        if self.proxy:
            return self.proxy
        self.turn += 1
        return sorted(self.ready)[self.turn % len(self.ready)]

    async def follow_ready(self, http: httpx2.AsyncClient) -> None:
        while not self.over:
            for web in self.made.webs:
                try:
                    is_ready = (await http.get(f"{web}/ready", timeout=5)).status_code == 200
                except httpx2.TransportError:
                    is_ready = False
                (self.ready.add if is_ready else self.ready.discard)(web)
            await asyncio.sleep(PROBE_S)

    async def send_requests(self, http: httpx2.AsyncClient) -> None:
        number, started = 0, time.monotonic()
        async with asyncio.TaskGroup() as group:
            while not self.over:
                group.create_task(self._request(http, number))
                number += 1
                await asyncio.sleep(max(0.0, started + number / REQUESTS_PER_S - time.monotonic()))

    async def _request(self, http: httpx2.AsyncClient, number: int) -> None:
        key = {"Authorization": f"Bearer {self.made.keys[number % len(self.made.keys)]}"}
        started = time.monotonic()
        try:
            match number % 4:
                case 0:
                    answer = await http.post(
                        f"{self.target()}/api/v1/conversations", json=conversation(number), headers=key
                    )
                case 1:
                    answer = await http.get(f"{self.target()}/login")
                case _:
                    query = f"{self.target()}/api/v1/conversations/search?query=note%20{number}"
                    answer = await http.get(query, headers=key)
            if answer.status_code not in (200, 201):
                logged_as = answer.headers.get("X-Request-ID")
                self.failures.append(f"request {number}: {answer.status_code} {answer.text[:200]} ({logged_as})")
        except httpx2.HTTPError as error:
            self.failures.append(f"request {number}: {error!r}")
        self.seconds.append(time.monotonic() - started)

    async def keep_streaming(self, http: httpx2.AsyncClient, number: int) -> None:
        """Ask in new conversations until the load is over, and wait for each reply's end."""
        key = {"Authorization": f"Bearer {self.made.keys[number % len(self.made.keys)]}"}
        while not self.over:
            last = ""
            try:
                made = await http.post(f"{self.target()}/api/v1/conversations", json={}, headers=key)
                path = f"/api/v1/conversations/{made.json()['id']}/stream"
                asked = {"message": "Tell me a long story"}
                async with http.stream("POST", self.target() + path, json=asked, headers=key) as stream:
                    async for line in stream.aiter_lines():
                        last = line if line.startswith("event:") else last
            except (httpx2.HTTPError, KeyError) as error:
                last = repr(error)
            self.streams += 1
            if last not in ("event: done", "event: title"):
                self.failures.append(f"a stream ended with {last!r}")

    async def restart_all(self) -> None:
        await asyncio.sleep(CALM_S)
        for number in range(len(self.made.webs)):
            stopped_s = await asyncio.to_thread(self.made.replace_web, number, timeout_s=self.drain_s + 15)
            print(f"web {number + 1} stopped within {stopped_s:.1f} s and is ready again", flush=True)
            await asyncio.sleep(CALM_S)
        self.over = True

    async def run(self) -> None:
        limits = httpx2.Limits(max_connections=200, keepalive_expiry=3.0)  # shorter than the server's 5 s
        async with httpx2.AsyncClient(timeout=60, limits=limits, trust_env=False) as http:
            self.ready = set(self.made.webs)
            async with asyncio.TaskGroup() as group:
                group.create_task(self.follow_ready(http))
                group.create_task(self.send_requests(http))
                for number in range(STREAMS):
                    group.create_task(self.keep_streaming(http, number))
                group.create_task(self.restart_all())


@contextlib.contextmanager
def running_caddy(program: str, made: Fleet) -> Iterator[str]:
    """Caddy with `deploy/Caddyfile` in front of the fleet's web processes; its address."""
    address = f"http://127.0.0.1:{free_port()}"
    text = (ROOT / "deploy/Caddyfile").read_text()
    for number, web in enumerate(made.webs, start=1):
        text = text.replace(f"web-{number}:8000", web.removeprefix("http://"))
    configured = made.folder / "Caddyfile"
    configured.write_text("{\n\tadmin off\n}\n" + text)
    command = [program, "run", "--config", str(configured), "--adapter", "caddyfile"]
    environment = os.environ | {"SITE": address, "HOME": str(made.folder)}
    with (
        (made.folder / "caddy.log").open("wb") as log,
        subprocess.Popen(command, env=environment, stdout=log, stderr=log) as caddy,
    ):
        try:
            wait_until(lambda: made.get(f"{address}/ready"), "Caddy")
            yield address
        finally:
            caddy.terminate()


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--caddy", default="", help="a Caddy to send the requests through")
    parser.add_argument("--drain", type=int, default=30, help="DRAIN_S of the web processes")
    options = parser.parse_args()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit("ended from outside"))  # so that what it started ends, too
    folder = Path(tempfile.mkdtemp(prefix="convmemory-rolling-"))
    folder.chmod(0o755)
    try:
        with running_chat_server(otherwise=lambda asked: TALK, keeps_requests=False) as endpoint:
            chat = {"CHAT_BASE_URL": endpoint.url, "CHAT_API_KEY": endpoint.key, "CHAT_MODEL": "m"}
            limits = {"REQUESTS_PER_USER": "20", "REQUESTS_BESIDE_OTHERS": "20", "STREAMS_PER_USER": "20"}
            with fleet(folder, people=2, settings=chat | limits | {"DRAIN_S": str(options.drain)}) as made:
                made.start_worker("worker-1")
                with running_caddy(options.caddy, made) if options.caddy else contextlib.nullcontext("") as proxy:
                    load = Load(made, options.drain, proxy)
                    asyncio.run(load.run())
                if load.failures:
                    made.print_errors()
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    p95 = quantiles(load.seconds, n=20)[-1] * 1000
    print(f"{len(load.seconds)} requests (p95 {p95:,.0f} ms) and {load.streams} streams, {len(load.failures)} failed")
    for failure in load.failures[:20]:
        print(f"FAILED: {failure}")
    return 1 if load.failures or not load.streams else 0


if __name__ == "__main__":
    sys.exit(main())
