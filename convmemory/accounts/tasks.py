"""Background tasks of accounts."""

from functools import partial
from typing import Any

from django.db import transaction

from convmemory.accounts import invitations, mail
from convmemory.core.queue.fair_queue import enqueue, slice_end, unrecorded


def enqueue_mail() -> None:
    """Let a worker send the mail that waits, once the transaction has stored it."""
    transaction.on_commit(partial(enqueue, "convmemory.accounts.tasks.send_mail", group="mail"))


@unrecorded
def send_mail() -> dict[str, Any]:
    """Send the mail that is due, and forget old addresses; enqueued with each message, and scheduled every minute."""
    forgotten = mail.forget_failed_mail() + invitations.forget_old_invitations()
    sent = mail.send_due_mail(deadline=slice_end()) if mail.can_send_mail() else 0
    return {"sent": sent, "forgotten": forgotten}
