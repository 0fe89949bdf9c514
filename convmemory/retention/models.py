"""Rules that put old conversations into the trash: of an owner, and of the operator for all users."""

from django.core.validators import MaxValueValidator, MinValueValidator
from django.db import models
from django.utils.translation import gettext_lazy as _

MAX_DAYS = 36_500


class AgeRule(models.Model):
    """Conversations of a source and a project (empty: of any) without a new message for some days."""

    source = models.CharField(_("source"), max_length=50, blank=True, default="")
    project = models.CharField(_("project"), max_length=300, blank=True, default="")
    days = models.PositiveIntegerField(
        _("days without a new message"), validators=[MinValueValidator(1), MaxValueValidator(MAX_DAYS)]
    )
    created_at = models.DateTimeField(auto_now_add=True)

    class Meta:
        abstract = True


class RetentionRule(AgeRule):
    """A rule of an owner for their own conversations."""

    archive = models.ForeignKey("accounts.Archive", db_column="owner_id", on_delete=models.CASCADE, related_name="+")

    def __str__(self) -> str:
        return f"retention rule {self.pk}"


class RetentionLimit(AgeRule):
    """A rule of the operator for the conversations of all owners, who see it on their page of rules."""

    def __str__(self) -> str:
        return f"retention limit {self.pk}"
