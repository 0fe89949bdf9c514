"""One `up` a data folder, which names itself and no earlier run."""

import json
import os
from pathlib import Path

import pytest

from convmemory.ops.runtime.instance import AlreadyRunning, Instance


def test_second_up_does_not_name_address_of_run_that_was_killed(tmp_path: Path) -> None:
    killed = {"pid": 1, "address": "http://127.0.0.1:8000", "children": {"web": {"pid": 1, "create_time": 1.0}}}
    (tmp_path / "up.json").write_text(json.dumps(killed))
    instance = Instance.acquire(tmp_path)
    with pytest.raises(AlreadyRunning, match=f"process {os.getpid()}, no address yet"):
        Instance.acquire(tmp_path)
    assert json.loads((tmp_path / "up.json").read_text())["children"] == killed["children"]  # to be stopped
    instance.record("http://127.0.0.1:8001", {})
    with pytest.raises(AlreadyRunning, match=r"127\.0\.0\.1:8001"):
        Instance.acquire(tmp_path)
    instance.release()
