"""Tables for operation: counts, samples of the index, maps of turns, erasures, alerts, archives of everything."""

from django.conf import settings
from django.contrib.postgres.fields import ArrayField
from django.db import models
from django.db.models import Q

from convmemory.documents.storage import document_storage
from convmemory.embeddings.models import EmbeddingSpace


class Measure(models.Model):
    """The number and duration of some operation, in one hour or, if `hour` is null, in total.

    The rows without an hour only grow: Prometheus reads them. Those with an hour are for charts and are deleted after
    `measures.KEPT_DAYS`. `buckets` counts by duration, see `measures.BOUNDS_S`.
    """

    name = models.CharField(max_length=50)
    label = models.CharField(max_length=120, blank=True, default="")
    hour = models.DateTimeField(null=True, blank=True)
    count = models.PositiveBigIntegerField(default=0)
    items = models.PositiveBigIntegerField(default=0)
    failures = models.PositiveBigIntegerField(default=0)
    seconds = models.FloatField(default=0)
    buckets = ArrayField(models.PositiveBigIntegerField())

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["name", "label", "hour"], nulls_distinct=False, name="ops_measure_unique"),
        ]
        indexes = [models.Index(fields=["hour"], name="ops_measure_hour")]

    def __str__(self) -> str:
        return f"{self.name} {self.label} {self.hour or 'ever'}".strip()


class IndexSample(models.Model):
    """The indexing progress of the whole installation at one moment; the dashboard reads these instead of the tables.

    `spaces` lists `{"space", "name", "active", "turns", "passages"}`, `reasons` lists `{"what", "reason", "count"}`.
    """

    taken_at = models.DateTimeField(auto_now_add=True, db_index=True)
    turns = models.PositiveBigIntegerField()
    pending = models.PositiveBigIntegerField(help_text="Turns that wait to be indexed.")
    failed = models.PositiveBigIntegerField(help_text="Turns that were given up.")
    queued = models.PositiveIntegerField(help_text="Tasks in the queue.")
    spaces = models.JSONField(default=list)
    reasons = models.JSONField(default=list)

    def __str__(self) -> str:
        return f"sample of {self.taken_at:%Y-%m-%d %H:%M}"


class TurnMap(models.Model):
    """The positions of a sample of one user's turns in the plane of their two main directions.

    `points` lists `[source, item, x, y]`, x and y from -1 to 1.
    """

    archive = models.OneToOneField("accounts.Archive", db_column="owner_id", on_delete=models.CASCADE, related_name="+")
    space = models.ForeignKey(EmbeddingSpace, on_delete=models.CASCADE, related_name="+")
    computed_at = models.DateTimeField()
    turns = models.PositiveBigIntegerField(help_text="How many the person has, of which `points` is a sample.")
    explained = models.FloatField(help_text="The share of the variance that the plane shows.")
    points = models.JSONField(default=list)

    def __str__(self) -> str:
        return f"map of the turns of user {self.archive_id}"


class SweepRun(models.Model):
    """The numbers of defects that one run of a sweep found and repaired, by kind. Only the newest are kept."""

    deep = models.BooleanField(default=False)
    started_at = models.DateTimeField(db_index=True)
    seconds = models.FloatField()
    found = models.JSONField(default=dict)
    fixed = models.JSONField(default=dict)

    def __str__(self) -> str:
        return f"{'deep sweep' if self.deep else 'sweep'} of {self.started_at:%Y-%m-%d %H:%M}"


class Erasure(models.Model):
    """An erasure of a user that has begun.

    The row is deleted with the user's own, so that an interrupted erasure can be found.
    """

    user = models.OneToOneField(settings.AUTH_USER_MODEL, on_delete=models.CASCADE, primary_key=True, related_name="+")
    requested_at = models.DateTimeField(auto_now_add=True)

    def __str__(self) -> str:
        return f"erasure of user {self.user_id}"


class ErasedUser(models.Model):
    """The id of an erased user and when the account was created, which together name no other account.

    A restore reads these rows before it replaces the database, and erases again whom the backup brings back.
    """

    account = models.BigIntegerField()
    joined_at = models.DateTimeField()
    erased_at = models.DateTimeField(auto_now_add=True)

    class Meta:
        constraints = [models.UniqueConstraint(fields=["account", "joined_at"], name="erased_user_unique")]

    def __str__(self) -> str:
        return f"erased user {self.account}"


class KeyFingerprint(models.Model):
    """The digest of the SECRET_KEY that this database is used with: one row, written by the first worker."""

    fingerprint = models.CharField(max_length=32, primary_key=True)
    recorded_at = models.DateTimeField(auto_now_add=True)

    def __str__(self) -> str:
        return f"key {self.fingerprint}"


class Alert(models.Model):
    """A finding of the doctor that was mailed to operators, until a later examination no longer has it."""

    finding = models.CharField(max_length=60, primary_key=True)
    found_at = models.DateTimeField(auto_now_add=True)

    def __str__(self) -> str:
        return f"alert of {self.finding}"


class RestoreCheck(models.Model):
    """The last time that a backup was restored, in earnest or on trial (`restore FILE --check`): one row."""

    checked_at = models.DateTimeField()

    def __str__(self) -> str:
        return f"restore check of {self.checked_at:%Y-%m-%d %H:%M}"


class KnownModel(models.Model):
    """The digest of a local model's tokenizer and configuration as a worker first saw them, by the model's name.

    The name itself contains a digest of the weights.
    """

    name = models.CharField(max_length=200, primary_key=True)
    sha256 = models.CharField(max_length=64)
    recorded_at = models.DateTimeField(auto_now_add=True)

    def __str__(self) -> str:
        return f"files of {self.name}"


class OwnArchive(models.Model):
    """An archive of everything, requested by its owner; `privacy/exporting.py` writes and removes it."""

    class State(models.TextChoices):
        QUEUED = "queued", "waiting"
        RUNNING = "running", "being written"
        DONE = "done", "complete"
        FAILED = "failed", "failed"

    person = models.ForeignKey(
        settings.AUTH_USER_MODEL, db_column="owner_id", on_delete=models.CASCADE, related_name="+"
    )
    state = models.CharField(max_length=10, choices=State, default=State.QUEUED)
    file = models.FileField(storage=document_storage, max_length=200, blank=True, default="")
    size = models.PositiveBigIntegerField(default=0)
    error = models.CharField(max_length=500, blank=True, default="")
    created_at = models.DateTimeField(auto_now_add=True)
    ended_at = models.DateTimeField(null=True, blank=True)

    class Meta:
        constraints = [
            models.CheckConstraint(
                condition=Q(state__in=["queued", "running", "done", "failed"]), name="own_archive_state"
            ),
            models.UniqueConstraint(
                fields=["person"], condition=Q(state__in=["queued", "running"]), name="own_archive_one_at_a_time"
            ),
        ]

    def __str__(self) -> str:
        return f"archive {self.pk}"

    @property
    def is_unfinished(self) -> bool:
        return self.state in (self.State.QUEUED, self.State.RUNNING)
