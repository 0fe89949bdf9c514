"""A real S3 service on 127.0.0.1 (moto), in a process of its own, with one bucket."""

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import boto3
import httpx2

from tests.support.fleet import free_port
from tests.support.patience import wait_until

BUCKET = "backups"


@contextmanager
def running_s3_server() -> Iterator[dict[str, str]]:
    """Run the service; yields the variables with which boto3 finds it."""
    port = free_port()
    code = f"from moto.server import main; main(['-H', '127.0.0.1', '-p', '{port}'])"
    address = f"http://127.0.0.1:{port}"
    variables = {
        "AWS_ENDPOINT_URL_S3": address, "AWS_ACCESS_KEY_ID": "testing", "AWS_SECRET_ACCESS_KEY": "testing",
        "AWS_REGION": "us-east-1", "AWS_DEFAULT_REGION": "us-east-1",
    }  # fmt: skip
    with subprocess.Popen([sys.executable, "-W", "ignore", "-c", code], stderr=subprocess.DEVNULL) as server:
        try:
            wait_until(lambda: _answers(address), "the S3 service")
            earlier = {name: os.environ.get(name) for name in variables}
            os.environ.update(variables)
            client().create_bucket(Bucket=BUCKET)
            yield variables
        finally:
            for name, value in earlier.items():
                os.environ.pop(name) if value is None else os.environ.update({name: value})
            server.kill()


def client() -> Any:
    return boto3.client("s3")


def _answers(address: str) -> bool:
    try:
        return httpx2.get(address).status_code == 200
    except httpx2.TransportError:
        return False
