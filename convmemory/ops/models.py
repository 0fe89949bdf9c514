"""What operating the installation keeps: counts of what was done, and who is being erased."""

from django.conf import settings
from django.contrib.postgres.fields import ArrayField
from django.db import models


class Measure(models.Model):
    """How often something was done and how long it took, in one hour or, where `hour` is null, ever.

    The rows without an hour only grow: Prometheus reads them. Those with an hour are for charts and
    go after `measures.KEPT_DAYS`. `buckets` counts by duration, see `measures.BOUNDS_S`.
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


class SweepRun(models.Model):
    """What one run of a sweep found and put right, by kind (see `sweeping`). Only the newest are kept."""

    deep = models.BooleanField(default=False)
    started_at = models.DateTimeField(db_index=True)
    seconds = models.FloatField()
    found = models.JSONField(default=dict)
    fixed = models.JSONField(default=dict)

    def __str__(self) -> str:
        return f"{'deep sweep' if self.deep else 'sweep'} of {self.started_at:%Y-%m-%d %H:%M}"


class Erasure(models.Model):
    """This person is being erased. The row goes with the person's own, so what is left unfinished can be found."""

    user = models.OneToOneField(settings.AUTH_USER_MODEL, on_delete=models.CASCADE, primary_key=True, related_name="+")
    requested_at = models.DateTimeField(auto_now_add=True)

    def __str__(self) -> str:
        return f"erasure of user {self.user_id}"
