"""What operating the installation keeps: counts of what was done, by the hour and in all."""

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
