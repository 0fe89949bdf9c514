"""Records of searches apart from the index: past searches of users, and the fitted weight of each reranker."""

from urllib.parse import parse_qsl

from django.conf import settings
from django.db import models


class PastSearch(models.Model):
    """A search by its owner, as the query string of its URL; `saved_at` is set if it was saved."""

    owner = models.ForeignKey(settings.AUTH_USER_MODEL, on_delete=models.CASCADE, related_name="+", db_index=False)
    address = models.CharField(max_length=1000)
    text = models.CharField(max_length=500, blank=True)
    used_at = models.DateTimeField()
    saved_at = models.DateTimeField(null=True, blank=True)

    class Meta:
        verbose_name_plural = "past searches"
        constraints = [models.UniqueConstraint(fields=["owner", "address"], name="past_search_unique")]
        indexes = [models.Index(fields=["owner", "-used_at"], name="past_search_newest")]

    def __str__(self) -> str:
        return f"search {self.pk} of {self.owner_id}"

    @property
    def filters(self) -> str:
        """Return the filters in one line."""
        return ", ".join(value for name, value in parse_qsl(self.address) if name != "q")


class RerankerWeight(models.Model):
    """The weight of a reranker in every search of this installation, and the measured gain."""

    name = models.CharField(max_length=300, unique=True, help_text="The model, or the address where none is named.")
    weight = models.FloatField(help_text="Of its scaled score, beside 1 of the scaled fused score; 0 leaves it out.")
    questions = models.PositiveIntegerField(help_text="How many it was measured on.")
    gain = models.FloatField(help_text="In mean reciprocal rank, on folds that were left out.")
    fitted_at = models.DateTimeField(auto_now=True)

    def __str__(self) -> str:
        return f"{self.name}: {self.weight}"
