"""API keys: how programs say whose archive they read. Only a hash of a key is stored."""

from django.conf import settings
from django.db import models


class ApiKey(models.Model):
    """A bearer key of one user. The key itself is shown once, when it is made."""

    owner = models.ForeignKey(settings.AUTH_USER_MODEL, on_delete=models.CASCADE, related_name="api_keys")
    name = models.CharField(max_length=100, blank=True, default="")
    prefix = models.CharField(max_length=12, help_text="The first characters, to recognise a key by.")
    key_hash = models.BinaryField(max_length=32, unique=True)
    created_at = models.DateTimeField(auto_now_add=True)
    last_used_at = models.DateTimeField(null=True, blank=True)
    revoked_at = models.DateTimeField(null=True, blank=True)

    class Meta:
        verbose_name = "API key"

    def __str__(self) -> str:
        return f"{self.prefix}… ({self.name or 'unnamed'})"


class ContentAccess(models.Model):
    """One reading of somebody's content by somebody else, in the admin."""

    reader = models.ForeignKey(settings.AUTH_USER_MODEL, on_delete=models.SET_NULL, null=True, related_name="+")
    owner = models.ForeignKey(settings.AUTH_USER_MODEL, on_delete=models.CASCADE, related_name="+")
    what = models.CharField(max_length=200)
    created_at = models.DateTimeField(auto_now_add=True)

    class Meta:
        verbose_name = "reading of content"
        verbose_name_plural = "readings of content"
        default_permissions = ()
        permissions = [("read_content", "Can read other people's content in the admin")]

    def __str__(self) -> str:
        return f"{self.what} of user {self.owner_id}"
