"""The size of the memory, and the share that the embedded PostgreSQL takes for its cache."""

from pathlib import Path

import psutil
import pytest

from convmemory.core.postgres import configuration
from convmemory.core.postgres.configuration import memory_size

MIB = 1024**2
GIB = 1024**3


def put(root: Path, files: dict[str, str]) -> Path:
    for name, text in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="ascii")
    return root


@pytest.mark.parametrize(
    "files",
    [
        pytest.param({}, id="a machine without control groups"),
        pytest.param(
            {"proc/self/cgroup": "0::/user.slice\n", "sys/fs/cgroup/user.slice/memory.max": "max\n"}, id="no limit"
        ),
        pytest.param({"proc/self/cgroup": "0::/../other\n"}, id="a group that cannot be seen"),
        pytest.param(
            {"proc/self/cgroup": "5:memory:/\n", "sys/fs/cgroup/memory/memory.limit_in_bytes": "9223372036854771712\n"},
            id="no limit in version 1",
        ),
    ],
)
def test_memory_size_without_limit_is_that_of_machine(tmp_path: Path, files: dict[str, str]) -> None:
    assert memory_size(put(tmp_path, files)) == psutil.virtual_memory().total


@pytest.mark.parametrize(
    "files",
    [
        pytest.param(
            {"proc/self/cgroup": "0::/a.slice/b.service\n", "sys/fs/cgroup/a.slice/b.service/memory.max": f"{MIB}\n"},
            id="a service",
        ),
        pytest.param(
            {
                "proc/self/cgroup": "0::/a.slice/b.service\n",
                "sys/fs/cgroup/a.slice/b.service/memory.max": "max\n",
                "sys/fs/cgroup/a.slice/memory.max": f"{MIB}\n",
            },
            id="the group around it",
        ),
        pytest.param(
            {"proc/self/cgroup": "0::/docker/0a1b\n", "sys/fs/cgroup/memory.max": f"{MIB}\n"},
            id="a container, which does not see its own path",
        ),
        pytest.param(
            {
                "proc/self/cgroup": "9:cpu,cpuacct:/x\n8:hugetlb,memory:/x\n0::/\n",
                "sys/fs/cgroup/memory/x/memory.limit_in_bytes": f"{MIB}\n",
            },
            id="version 1",
        ),
    ],
)
def test_memory_size_is_limited_by_control_group(tmp_path: Path, files: dict[str, str]) -> None:
    assert memory_size(put(tmp_path, files)) == MIB


@pytest.mark.parametrize(
    ("memory", "buffers"), [(GIB, "256MB"), (16 * GIB, "2048MB"), (24064 * MIB, "3008MB"), (512 * GIB, "8192MB")]
)
def test_cache_follows_memory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, memory: int, buffers: str) -> None:
    monkeypatch.setattr(configuration, "memory_size", lambda: memory)

    configuration.write_configuration(tmp_path, tmp_path, {})

    assert f"shared_buffers = '{buffers}'" in (tmp_path / "convmemory.conf").read_text(encoding="utf-8").splitlines()


def test_given_shared_buffers_replace_computed_cache(tmp_path: Path) -> None:
    configuration.write_configuration(tmp_path, tmp_path, {"shared_buffers": "64MB"})

    lines = (tmp_path / "convmemory.conf").read_text(encoding="utf-8").splitlines()
    assert [line for line in lines if line.startswith("shared_buffers")] == ["shared_buffers = '64MB'"]
