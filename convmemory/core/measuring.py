"""Lets any layer report an event and its duration; `convmemory.ops` keeps the counts.

A measurement never contains private text: names and labels come from the code, not from people.
"""

import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from django.dispatch import Signal

measured = Signal()
"""Sent with `measurement: Measurement`."""


@dataclass(slots=True)
class Measurement:
    """One measured event.

    `items` counts its objects (texts embedded, hits found); `label` distinguishes variants of a name.
    """

    name: str
    label: str = ""
    seconds: float = 0.0
    items: int = 1
    failed: bool = False


def report(measurement: Measurement) -> None:
    """Send a measurement to the receivers of `measured`."""
    measured.send(Measurement, measurement=measurement)


@contextmanager
def timed(name: str, *, label: str = "", items: int = 1) -> Iterator[Measurement]:
    """Report the duration of the block, even if it raises; the block may set `items`."""
    measurement = Measurement(name, label, items=items)
    started = time.perf_counter()
    try:
        yield measurement
    except BaseException:
        measurement.failed = True
        raise
    finally:
        measurement.seconds = time.perf_counter() - started
        report(measurement)
