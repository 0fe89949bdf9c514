"""The commands that start the product's programs: a web server with the limits of `edge`, and a worker."""

import sys
from pathlib import Path

from convmemory.core.config import Config, config

WEB_GRACE_S = 5
KEEP_ALIVE_S = 5


def listening_address(host: str | None, port: int | None) -> tuple[str, int]:
    """Where to listen: the command's options, else `HOST` and `PORT`, else port 8000 of this machine alone."""
    return host or Config.host.read() or "127.0.0.1", Config.port.read() if port is None else port


def web_command(host: str, port: int) -> list[str]:
    """Return the command for uvicorn with `WEB_WORKERS` processes.

    It trusts `X-Forwarded-For` of configured proxies only, not of this machine as by default: any local process could
    claim any address. It gets no --limit-concurrency, which counts idle connections: `edge` limits connections and
    requests itself.
    """
    command = [sys.executable, "-m", "uvicorn", "convmemory.asgi:application", "--host", host, "--port", str(port)]
    if proxies := config.forwarded_allow_ips:
        command += ["--proxy-headers", "--forwarded-allow-ips", ",".join(proxies)]
    else:
        command += ["--no-proxy-headers"]
    command += ["--no-access-log", "--timeout-graceful-shutdown", str(WEB_GRACE_S)]
    command += ["--http", "convmemory.edge.connections:GuardedConnection", "--ws", "none"]
    command += ["--timeout-keep-alive", str(KEEP_ALIVE_S)]
    command += ["--app-dir", str(config.base_dir)]
    if (workers := Config.web_workers.read()) > 1:
        command += ["--workers", str(workers)]
    return command


def worker_command() -> list[str]:
    return [sys.executable, str(Path(config.base_dir) / "manage.py"), "worker"]
