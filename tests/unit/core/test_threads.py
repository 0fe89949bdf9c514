"""Threads of tools that hang delay no other work."""

import asyncio
import threading

from convmemory.core.threads import in_thread, in_tool_thread


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
