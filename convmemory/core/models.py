"""The tables of the fair queue and of owner groups."""

import uuid

from django.conf import settings
from django.db import models


class OwnerTask(models.Model):
    """A task that waits or is in progress, without an owner one of the installation; its row is deleted at its end.

    A worker has leased it while `leased_until` lies in the future. `version` grows with each request for the task, so
    that a request during the work is not lost. `slices` counts the attempts that did not finish it. `asked_at` is the
    time of the last request, or that of the content if it is older: of an owner's tasks the newest is next.
    """

    archive = models.ForeignKey(
        "accounts.Archive",
        db_column="owner_id",
        null=True,
        blank=True,
        on_delete=models.CASCADE,
        related_name="+",
        db_index=False,
    )
    person = models.ForeignKey(
        settings.AUTH_USER_MODEL,
        null=True,
        blank=True,
        on_delete=models.SET_NULL,
        related_name="+",
        help_text="The member who asked for it in a space; empty for the owner's own.",
    )
    task_id = models.UUIDField(default=uuid.uuid4, editable=False)
    key = models.CharField(max_length=300, help_text="The function with its arguments.")
    func = models.CharField(max_length=200)
    args = models.JSONField(default=list)
    group = models.CharField(max_length=50, blank=True, default="")
    is_long = models.BooleanField(default=False, help_text="It cannot stop after some seconds.")
    version = models.PositiveBigIntegerField(default=1)
    slices = models.PositiveIntegerField(default=0)
    attempts = models.PositiveSmallIntegerField(default=0, help_text="Since it last got on.")
    asked_at = models.DateTimeField()
    due_at = models.DateTimeField()
    leased_until = models.DateTimeField(null=True, blank=True)
    cluster = models.CharField(max_length=100, blank=True, default="", help_text="Whose worker has it.")

    class Meta:
        verbose_name = "waiting task"
        # A field that is unique by itself gets a second index, for LIKE.
        constraints = [models.UniqueConstraint(fields=["key"], name="owner_task_key")]
        indexes = [models.Index(fields=["archive", "slices", "-asked_at"], name="owner_task_next")]

    def __str__(self) -> str:
        return f"{self.func} for archive {self.archive_id}" if self.archive_id else self.func


class OwnerService(models.Model):
    """The time at which a worker last took a task that this person, or the owner, asked for in the owner's archive.

    The person served longest ago is next, then that person's archive served longest ago.
    """

    person = models.ForeignKey(settings.AUTH_USER_MODEL, null=True, on_delete=models.SET_NULL, related_name="+")
    archive = models.ForeignKey("accounts.Archive", db_column="owner_id", on_delete=models.CASCADE, related_name="+")
    served_at = models.DateTimeField()

    def __str__(self) -> str:
        return f"last task for user {self.person_id or self.archive_id} in archive {self.archive_id}"


class OwnerGroup(models.Model):
    """The group whose tables hold this archive's rows. Empty on one server, see `postgres/groups.py`."""

    archive = models.OneToOneField(
        "accounts.Archive", db_column="owner_id", on_delete=models.CASCADE, primary_key=True, related_name="+"
    )
    number = models.PositiveIntegerField()

    def __str__(self) -> str:
        return f"archive {self.archive_id} in group {self.number}"
