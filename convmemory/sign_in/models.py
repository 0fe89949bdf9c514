"""Wrong passwords, the addresses of right ones, second factors, passkeys, and identities at providers.

Names of wrong passwords and addresses are stored as keyed hashes only.
"""

from django.conf import settings
from django.contrib.postgres.fields import ArrayField
from django.db import models


class PasswordFailures(models.Model):
    """The recent wrong passwords for a name, from an address, or for a name from an address."""

    key = models.BinaryField(max_length=32, unique=True)
    failures = models.PositiveIntegerField()
    last_failed_at = models.DateTimeField(db_index=True)
    paused_until = models.DateTimeField()

    class Meta:
        default_permissions = ()

    def __str__(self) -> str:
        return f"{self.failures} wrong passwords"


class KnownAddress(models.Model):
    """An address from which a person has given the right password: wrong passwords of others do not pause it."""

    person = models.ForeignKey(
        settings.AUTH_USER_MODEL, db_column="owner_id", on_delete=models.CASCADE, related_name="+"
    )
    address_hash = models.BinaryField(max_length=32)
    succeeded_at = models.DateTimeField()

    class Meta:
        default_permissions = ()
        constraints = [models.UniqueConstraint(fields=["person", "address_hash"], name="known_address_once")]

    def __str__(self) -> str:
        return f"an address of user {self.person_id}"


class LinkedIdentity(models.Model):
    """A person at an identity provider, who signs in to the owner's account."""

    person = models.ForeignKey(
        settings.AUTH_USER_MODEL, db_column="owner_id", on_delete=models.CASCADE, related_name="+"
    )
    issuer = models.TextField()
    subject = models.TextField()
    created_at = models.DateTimeField(auto_now_add=True)
    last_used_at = models.DateTimeField(null=True, blank=True)

    class Meta:
        verbose_name = "linked identity"
        verbose_name_plural = "linked identities"
        constraints = [models.UniqueConstraint(fields=["issuer", "subject"], name="identity_once")]

    def __str__(self) -> str:
        return f"an identity of user {self.person_id}"


class SecondFactor(models.Model):
    """The authenticator app of a person, if there is one, and the recovery codes that are left."""

    person = models.OneToOneField(
        settings.AUTH_USER_MODEL, db_column="owner_id", on_delete=models.CASCADE, related_name="+"
    )
    app_secret_encrypted = models.TextField(blank=True, default="")
    app_last_step = models.BigIntegerField(default=0)
    """The time step of the last code that was accepted; earlier ones and this one are refused."""
    recovery_code_hashes = ArrayField(models.BinaryField(max_length=32), default=list)

    class Meta:
        default_permissions = ()

    def __str__(self) -> str:
        return f"the second factor of user {self.person_id}"


class Passkey(models.Model):
    """A passkey with which a person signs in: the public half of its key."""

    person = models.ForeignKey(
        settings.AUTH_USER_MODEL, db_column="owner_id", on_delete=models.CASCADE, related_name="+"
    )
    name = models.CharField(max_length=100)
    credential_id = models.BinaryField(max_length=1023, unique=True)
    public_key = models.BinaryField(max_length=10_000)
    last_challenge_us = models.BigIntegerField(default=0)
    """When the last accepted challenge was made, in microseconds; only later ones are accepted."""
    created_at = models.DateTimeField(auto_now_add=True)
    last_used_at = models.DateTimeField(null=True, blank=True)

    class Meta:
        default_permissions = ()

    def __str__(self) -> str:
        return f"passkey {self.pk}"
