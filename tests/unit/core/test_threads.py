"""Threads of tools that hang delay no other work, and calls in threads have the language of their caller."""

import asyncio
import threading

from django.utils import translation

from convmemory.core.threads import DatabaseThreads, in_thread, in_tool_thread


def test_hanging_tools_do_not_delay_other_threads() -> None:
    end = threading.Event()

    async def heartbeat_beside_hanging_tools() -> str:
        tools = [asyncio.create_task(in_tool_thread(end.wait, 60)) for _ in range(20)]
        try:
            return await asyncio.wait_for(in_thread(lambda: "beaten"), timeout=30)
        finally:
            end.set()
            assert await asyncio.gather(*tools) == [True] * 20

    assert asyncio.run(heartbeat_beside_hanging_tools()) == "beaten"


def test_call_runs_in_language_of_its_caller_and_leaves_none_behind() -> None:
    async def languages() -> list[str | None]:
        threads = DatabaseThreads(1, "language")
        with translation.override("de"):
            german = await threads.run(translation.get_language)
        with translation.override("en"):
            return [german, await threads.run(translation.get_language)]

    assert asyncio.run(languages()) == ["de", "en"]
