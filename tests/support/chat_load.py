"""Load on the chat: many streams at once, then many replies one after another, with the server's memory.

    python -m tests.support.chat_server 9901 &          # the fast endpoint; its key is `secret`
    python -m tests.support.chat_load http://127.0.0.1:8000 KEY --endpoint http://127.0.0.1:9901/v1 --pid WEB_PID

The web server must run with CHAT_BASE_URL, CHAT_API_KEY and CHAT_MODEL of that endpoint. Prints figures, among
them the endpoint's own time under the same load, and fails where a reply was lost.
"""

import argparse
import asyncio
import time
from dataclasses import dataclass, field
from statistics import median, quantiles

import httpx2
import psutil

WORDS = "What do you remember of the sourdough starter?"


@dataclass
class Times:
    """Milliseconds from the request to the first event, to the first text, and to the end, a reply each."""

    first_event: list[float] = field(default_factory=list)
    first_text: list[float] = field(default_factory=list)
    end: list[float] = field(default_factory=list)

    def report(self, name: str) -> str:
        kinds = {"first event": self.first_event, "first text": self.first_text, "end": self.end}
        told = [f"{kind} p50 {median(ms):.0f}, p95 {p95(ms):.0f} ms" for kind, ms in kinds.items() if ms]
        return f"{name} ({len(self.end)} replies): {'; '.join(told)}"


def p95(values: list[float]) -> float:
    return quantiles(values, n=20)[-1] if len(values) > 1 else values[0]


async def new_conversations(site: httpx2.AsyncClient, count: int) -> list[int]:
    return [(await site.post("/api/v1/conversations", json={})).json()["id"] for _ in range(count)]


async def talk(site: httpx2.AsyncClient, number: int, times: Times) -> None:
    """A reply in an empty conversation, checked."""
    lines: list[str] = []
    started = time.perf_counter()
    async with site.stream("POST", f"/api/v1/conversations/{number}/stream", json={"message": WORDS}) as response:
        async for line in response.aiter_lines():
            elapsed = (time.perf_counter() - started) * 1000
            if not lines:
                times.first_event.append(elapsed)
            if line == "event: text" and "event: text" not in lines:
                times.first_text.append(elapsed)
            lines.append(line)
    times.end.append((time.perf_counter() - started) * 1000)
    assert "event: done" in lines, lines[-4:]


async def ask_endpoint(endpoint: httpx2.AsyncClient, times: Times) -> None:
    """The same question to the endpoint itself."""
    started = time.perf_counter()
    body = {"model": "m", "stream": True, "messages": [{"role": "user", "content": WORDS}]}
    async with endpoint.stream("POST", "/chat/completions", json=body) as response:
        async for line in response.aiter_lines():
            if '"content": "You' in line:
                times.first_text.append((time.perf_counter() - started) * 1000)
    times.end.append((time.perf_counter() - started) * 1000)


def cpu_s(process: psutil.Process) -> float:
    used = process.cpu_times()
    return float(used.user + used.system)


async def lost(site: httpx2.AsyncClient) -> int:
    """Conversations of the key's owner that are not idle with a numbered turn."""
    page = (await site.get("/api/v1/conversations", params={"limit": 100})).json()["results"]
    return sum(row["status"] != "idle" or row["turn_count"] != 1 for row in page)


async def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("address")
    parser.add_argument("key")
    parser.add_argument("--endpoint", required=True)
    parser.add_argument("--pid", type=int, required=True)
    parser.add_argument("--streams", type=int, default=50)
    parser.add_argument("--replies", type=int, default=1000)
    options = parser.parse_args()
    web = psutil.Process(options.pid)
    limits = httpx2.Limits(max_connections=options.streams)
    site = httpx2.AsyncClient(
        base_url=options.address,
        headers={"Authorization": f"Bearer {options.key}"},
        timeout=120,
        limits=limits,
        trust_env=False,
    )
    endpoint = httpx2.AsyncClient(
        base_url=options.endpoint,
        headers={"Authorization": "Bearer secret"},
        timeout=120,
        limits=limits,
        trust_env=False,
    )
    async with site, endpoint:
        for _ in range(3):  # every web process imports what it needs at its first requests
            warm = await new_conversations(site, 8)
            await asyncio.gather(*(talk(site, number, Times()) for number in warm))
        numbers = await new_conversations(site, options.streams)
        direct, ours = Times(), Times()
        await asyncio.gather(*(ask_endpoint(endpoint, direct) for _ in range(options.streams)))
        await asyncio.gather(*(talk(site, number, ours) for number in numbers))
        print(direct.report("the endpoint itself"))
        print(ours.report("through the chat"), f"; not idle with one turn: {await lost(site)}")
        for kind, times in (("first event", ours.first_event), ("first text", ours.first_text)):
            above = p95(times) - p95(direct.first_text)
            print(f"{kind} p95 above the endpoint's own first text: {above:.0f} ms")
        many, cpu_before = Times(), cpu_s(web)
        for round_number in range(options.replies // 100 + 1):
            print(f"after {round_number * 100} replies: {web.memory_info().rss / 2**20:.1f} MB")
            if round_number * 100 < options.replies:
                for _ in range(20):
                    numbers = await new_conversations(site, 5)
                    await asyncio.gather(*(talk(site, number, many) for number in numbers))
        print(many.report("5 at a time"), f"; not idle with one turn: {await lost(site)}")
        print(f"CPU of the web process: {(cpu_s(web) - cpu_before) * 1000 / max(options.replies, 1):.1f} ms a reply")


if __name__ == "__main__":
    asyncio.run(main())
