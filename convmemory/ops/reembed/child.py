"""The code of a worker process of `manage.py reembed`. Imports no app before Django is set up."""

import os
import signal
import threading
import time
from dataclasses import dataclass

from convmemory.core.processes.child_limits import step_back

# A long source reports its progress this often.
SLICE_S = 20.0
# A killed parent cannot end its children.
PARENT_POLL_S = 1.0


@dataclass(frozen=True, slots=True)
class StepResult:
    """The outcome of one step for one source. `unavailable` is the reason if the model cannot be used at all."""

    finished: bool
    items: int = 0
    computed: int = 0
    failed: int = 0
    error: str = ""
    unavailable: str = ""


def prepare(parent_pid: int) -> None:
    """Set up the process: it ends when its parent is killed, and leaves Ctrl-C to the parent."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    threading.Thread(target=_end_with, args=(parent_pid,), daemon=True).start()
    step_back()
    import django

    django.setup()
    from convmemory.core import acting

    acting.process_acts_as(acting.MAINTENANCE)


def step(space_id: int, source_id: int) -> StepResult:
    """Embed one source in one space for at most `SLICE_S` or one batch, whichever takes longer."""
    from convmemory.core.acting import acting_for
    from convmemory.core.errors import EmbedderUnavailable
    from convmemory.core.logs import safe_message
    from convmemory.embeddings.models import EmbeddingSpace
    from search.indexing.active import index_source
    from search.models import Source

    deadline = time.monotonic() + SLICE_S
    try:
        space = EmbeddingSpace.objects.get(pk=space_id)
        archive_id = Source.objects.values_list("archive_id", flat=True).filter(pk=source_id).first()
        if archive_id is None:  # the source was deleted meanwhile
            return StepResult(finished=True)
        with acting_for(archive_id):
            building = None if space.is_active else space
            done = index_source(archive_id=archive_id, source_id=source_id, deadline=deadline, building=building)
    except EmbedderUnavailable as error:
        return StepResult(finished=False, unavailable=str(error))
    except Exception as error:  # one bad source must not stop the others; it is reported
        return StepResult(finished=True, error=safe_message(error))
    return StepResult(done.finished, done.items, done.computed, done.failed)


def _end_with(parent_pid: int) -> None:
    while os.getppid() == parent_pid:
        time.sleep(PARENT_POLL_S)
    os._exit(1)
