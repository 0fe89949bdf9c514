"""Archives with their members and those invited, API keys, share links, legal holds, the audit log, quotas, use of the
operator's model, invitations to make an account, and what a directory provisions by SCIM.

A key identifies the owner whose archive a program reads, a share link the owner whose conversation it shows; only their
hashes are stored.
"""

from datetime import datetime

from django.conf import settings
from django.contrib.postgres.fields import ArrayField
from django.db import models
from django.utils import timezone
from django.utils.translation import gettext_lazy as _
from django.utils.translation import pgettext_lazy


class Archive(models.Model):
    """What rows belong to: a person's own archive, or a space, which several people read.

    A person's own archive has the number of the person and is made with the account. A space takes its number from the
    same sequence, so that no two archives have the same.
    """

    class Kind(models.TextChoices):
        OWN = "own"
        SPACE = "space"

    id = models.IntegerField(primary_key=True)
    kind = models.CharField(max_length=10, choices=Kind.choices)
    name = models.CharField(_("name"), max_length=100, blank=True, default="", help_text="Of a space.")
    person = models.OneToOneField(
        settings.AUTH_USER_MODEL, on_delete=models.CASCADE, null=True, blank=True, related_name="archive"
    )
    created_at = models.DateTimeField(default=timezone.now, editable=False)

    class Meta:
        permissions = [("make_spaces", "Can make spaces where MAKE_SPACES is permitted")]
        constraints = [
            models.CheckConstraint(
                condition=models.Q(kind="own", person_id=models.F("id"))
                | models.Q(kind="space", person_id__isnull=True),
                name="archive_of_one_person_or_space",
            )
        ]

    def __str__(self) -> str:
        # Not the name of a space, which members chose: the log of the administration keeps this.
        return f"space {self.pk}" if self.person is None else self.person.get_username()


class ApiKey(models.Model):
    """A bearer key of one user. The key itself is shown once, when it is created."""

    person = models.ForeignKey(
        settings.AUTH_USER_MODEL, db_column="owner_id", on_delete=models.CASCADE, related_name="api_keys"
    )
    name = models.CharField(max_length=100, blank=True, default="")
    prefix = models.CharField(max_length=12, help_text="The first characters, to recognise a key by.")
    key_hash = models.BinaryField(max_length=32, unique=True)
    created_at = models.DateTimeField(auto_now_add=True)
    last_used_at = models.DateTimeField(null=True, blank=True)
    revoked_at = models.DateTimeField(null=True, blank=True)
    expires_at = models.DateTimeField(null=True, blank=True, help_text="Null: never.")
    read_only = models.BooleanField(default=False, help_text="Searches and reads; changes nothing.")
    # The database's default serves processes of an earlier version, which do not name the column.
    space_ids = ArrayField(
        models.IntegerField(),
        null=True,
        blank=True,
        default=list,
        db_default=[],
        help_text="The spaces that it reads, if the owner is a member. Null: all.",
    )
    writes_spaces = models.BooleanField(
        default=False, db_default=False, help_text="It also writes to these spaces, as far as the owner's role allows."
    )
    client_id = models.TextField(blank=True, default="", help_text="The program that got the key by OAuth.")
    code_token_hash = models.BinaryField(max_length=32, null=True, unique=True)
    refresh_token_hash = models.BinaryField(max_length=32, null=True)
    renewable_until = models.DateTimeField(null=True, blank=True, help_text="Of a key that its program renews.")

    class Meta:
        verbose_name = "API key"

    def __str__(self) -> str:
        return f"key {self.prefix}…"  # not the name: the admin shows this, and the name is the owner's text

    @property
    def ends_at(self) -> datetime | None:
        """Return when the key can no longer be used or renewed; None for never."""
        return self.renewable_until or self.expires_at

    @property
    def is_expired(self) -> bool:
        return self.ends_at is not None and self.ends_at <= timezone.now()


class ShareLink(models.Model):
    """A link that shows one conversation, or one turn of it, as far as it was stored when the link was made.

    Revoking the link deletes the row, and so does deleting the conversation.
    """

    # With accounts, whose tables are shared: who opens a link does not know its owner, nor the owner's group.
    archive = models.ForeignKey(Archive, db_column="owner_id", on_delete=models.CASCADE, related_name="+")
    token_hash = models.BinaryField(max_length=32, unique=True)
    token_encrypted = models.TextField(
        default="", db_default="", help_text="To copy the link again. Empty in older ones."
    )
    conversation_id = models.BigIntegerField(db_index=True)
    opening_message_id = models.BigIntegerField(null=True, help_text="Of the only turn that is shown. Null: all are.")
    last_message_id = models.BigIntegerField(help_text="Messages with a higher id are not shown.")
    people_only = models.BooleanField(default=True, help_text="Only signed-in users may open it.")
    created_at = models.DateTimeField(auto_now_add=True)
    expires_at = models.DateTimeField(null=True, help_text="Null: never.")
    opened_count = models.PositiveIntegerField(default=0)
    last_opened_at = models.DateTimeField(null=True)

    class Meta:
        verbose_name = "share link"

    def __str__(self) -> str:
        return f"share link {self.pk}"


class LegalHold(models.Model):
    """Forbids deleting what is in an archive, or one conversation, until it is lifted. The application only reads it.

    A lifted hold stays, with both reasons.
    """

    # With accounts, whose tables are shared: staff set it without knowing the owner's group.
    archive = models.ForeignKey(Archive, db_column="owner_id", on_delete=models.CASCADE, related_name="+")
    conversation_id = models.BigIntegerField(
        null=True, blank=True, help_text="Empty: all of the archive. What a person wrote in spaces is in these."
    )
    reason = models.CharField(max_length=500, help_text="The person's archive of everything contains it.")
    created_at = models.DateTimeField(auto_now_add=True)
    lifted_at = models.DateTimeField(null=True, editable=False, help_text="Empty: it is in force.")
    lift_reason = models.CharField("reason to lift it", max_length=500, default="")

    class Meta:
        verbose_name = "legal hold"

    def __str__(self) -> str:
        return f"legal hold {self.pk}"


class AuditEntry(models.Model):
    """One entry of the audit log: who did what, to whose data. Without any text that people wrote.

    The application's log-in can only add entries, of now and of the person who acts, and count repeated acts; the sweep
    deletes old ones, and an erasure takes a person's name out.
    """

    class Action(models.TextChoices):
        READ = "read"
        EXPORTED = "exported"
        MADE = "made"
        CHANGED = "changed"
        MOVED = "moved"
        COPIED = "copied"
        REVOKED = "revoked"
        TRASHED = "trashed"
        RESTORED = "restored"
        DELETED = "deleted"
        ERASED = "erased"
        HELD = "held"
        RELEASED = "released"
        SIGNED_IN = "signed in"
        SIGN_IN_FAILED = "sign-in failed"

    created_at = models.DateTimeField(auto_now_add=True, db_index=True)
    action = models.CharField(max_length=30, choices=Action.choices)
    surface = models.CharField(max_length=10, help_text="page, api, agent, admin or command")
    person = models.ForeignKey(settings.AUTH_USER_MODEL, on_delete=models.SET_NULL, null=True, related_name="+")
    # Not called owner: the log is not the owner's, and no policy of owners holds for it.
    about = models.ForeignKey(Archive, on_delete=models.SET_NULL, null=True, related_name="+")
    what = models.CharField(max_length=200, help_text="The kind and the number of an object.")
    times = models.PositiveIntegerField(
        null=True, help_text="How often it happened in that hour, of acts that callers can repeat at will. Null: once."
    )

    class Meta:
        indexes = [
            models.Index(
                fields=["what", "created_at"], condition=models.Q(times__isnull=False), name="audit_entry_counted"
            )
        ]
        verbose_name = "audit entry"
        verbose_name_plural = "audit log"
        default_permissions = ()
        permissions = [("read_content", "Can read other people's content in the admin")]

    def __str__(self) -> str:
        return f"audit entry {self.pk}"


class ModelUse(models.Model):
    """The use of the operator's model on one day, in a space or by a person in all archives, as all processes count it
    together.

    `tokens` includes what running requests have reserved.
    """

    archive = models.ForeignKey(
        Archive, db_column="owner_id", on_delete=models.CASCADE, related_name="+", db_index=False
    )
    day = models.DateField()
    tokens = models.BigIntegerField(default=0)
    requests = models.PositiveIntegerField(default=0)

    class Meta:
        verbose_name = "use of the model"
        verbose_name_plural = "uses of the model"
        constraints = [
            models.UniqueConstraint(fields=["archive", "day"], name="model_use_once_a_day"),
        ]

    def __str__(self) -> str:
        return f"use of the model by user {self.archive_id} on {self.day}"


class Limits(models.Model):
    """Limits of an owner; null: the next level decides, 0: any amount. The application only reads them."""

    stored_mb = models.PositiveBigIntegerField("megabytes", null=True, blank=True)
    turns = models.PositiveBigIntegerField(null=True, blank=True)
    documents = models.PositiveBigIntegerField(null=True, blank=True)
    monthly_tokens = models.PositiveBigIntegerField("tokens a month", null=True, blank=True)

    class Meta:
        abstract = True


class Quota(Limits):
    """The limits of one person, or of one space."""

    archive = models.OneToOneField(Archive, db_column="owner_id", on_delete=models.CASCADE, related_name="+")

    class Meta:
        verbose_name = "quota"

    def __str__(self) -> str:
        return f"quota of user {self.archive_id}"


class GroupQuota(Limits):
    """The limits of each member of a group; of several groups the highest counts."""

    group = models.OneToOneField("auth.Group", on_delete=models.CASCADE, related_name="quota")

    class Meta:
        verbose_name = "quota of a group's members"
        verbose_name_plural = "quotas of groups' members"

    def __str__(self) -> str:
        return f"quota of group {self.group_id}"


class Invitation(models.Model):
    """A link with which a person makes one account. Using it deletes the row, and so does revoking it.

    The link is signed, not stored (`invitations.py`).
    """

    email = models.EmailField(_("e-mail address"), blank=True, default="", help_text=_("Empty: you pass on the link."))
    created_at = models.DateTimeField(default=timezone.now, editable=False)
    expires_at = models.DateTimeField(editable=False)

    class Meta:
        verbose_name = "invitation"

    def __str__(self) -> str:
        return f"invitation {self.pk}"  # the log of the administration keeps this: no address

    @property
    def is_expired(self) -> bool:
        return self.expires_at <= timezone.now()


class MailChoice(models.Model):
    """The mail that a person wants about ended work, and its language. Without a row: mail about long work."""

    class Notices(models.TextChoices):
        NONE = "none", pgettext_lazy("mail", "Never")
        LONG = "long", _("If it took longer than five minutes")
        ALL = "all", _("Always, also if a program sent the import")

    person = models.OneToOneField(
        settings.AUTH_USER_MODEL, db_column="owner_id", on_delete=models.CASCADE, related_name="+"
    )
    notices = models.CharField(max_length=10, choices=Notices.choices, default=Notices.LONG)
    language = models.CharField(max_length=10)

    class Meta:
        default_permissions = ()

    def __str__(self) -> str:
        return f"choice of mail {self.pk}"


class Mail(models.Model):
    """A message that a worker sends. Texts with secret links are made when it is sent; the row holds none.

    `subject` and `text` are those of a notice, and contain nothing that people wrote.
    """

    class Kind(models.TextChoices):
        INVITATION = "invitation"
        PASSWORD_RESET = "password_reset"  # noqa: S105
        NOTICE = "notice"

    kind = models.CharField(max_length=20, choices=Kind.choices)
    recipient = models.EmailField()
    language = models.CharField(max_length=10, blank=True, default="", help_text="Empty: of a notice.")
    invitation = models.OneToOneField(Invitation, on_delete=models.CASCADE, null=True, related_name="mail")
    # The database's defaults serve processes of an earlier version, which do not name the columns.
    subject = models.CharField(max_length=200, blank=True, default="", db_default="")
    text = models.TextField(blank=True, default="", db_default="")
    attempts = models.PositiveSmallIntegerField(default=0)
    updated_at = models.DateTimeField(default=timezone.now)
    sent_at = models.DateTimeField(null=True)
    error = models.CharField(max_length=200, blank=True, default="")

    class Meta:
        default_permissions = ()

    def __str__(self) -> str:
        return f"mail {self.pk}"


class Membership(models.Model):
    """A person who reads a space, by their own consent or by a provider's group.

    The database looks here for each statement of a member (`apply_policies`).
    """

    class Role(models.TextChoices):
        READER = "reader", _("Reader")
        CONTRIBUTOR = "contributor", _("Contributor")
        MANAGER = "manager", _("Manager")

    archive = models.ForeignKey(Archive, on_delete=models.CASCADE, related_name="memberships", db_index=False)
    person = models.ForeignKey(settings.AUTH_USER_MODEL, on_delete=models.CASCADE, related_name="memberships")
    role = models.CharField(_("role"), max_length=20, choices=Role.choices, default=Role.READER)
    added_at = models.DateTimeField(default=timezone.now, editable=False)
    given_by = models.CharField(
        max_length=40, blank=True, default="", db_default="", help_text="The identity provider. Empty: a manager."
    )

    class Meta:
        verbose_name = "member of a space"
        verbose_name_plural = "members of spaces"
        constraints = [models.UniqueConstraint(fields=["archive", "person"], name="membership_once")]

    def __str__(self) -> str:
        return f"user {self.person_id} in space {self.archive_id}"


class SpaceInvitation(models.Model):
    """An invitation to a space: it gives no right until the invited person accepts it, which deletes the row.

    `username` is what the manager typed, `person` the account that had this name then, if there was one. One that is
    `by_link` has an e-mail address or a label there, and no account: its link is signed, not stored. A row that was
    declined or withdrawn, or that names no account, lasts as long as one that waits: a space cannot tell them apart.
    """

    archive = models.ForeignKey(Archive, on_delete=models.CASCADE, related_name="invitations", db_index=False)
    person = models.ForeignKey(settings.AUTH_USER_MODEL, on_delete=models.CASCADE, null=True, related_name="+")
    username = models.CharField(max_length=150)
    by_link = models.BooleanField(default=False, db_default=False)
    role = models.CharField(max_length=20, choices=Membership.Role.choices)
    # Not theirs: their archive of everything would say which invitations were declined.
    invited_by = models.ForeignKey(settings.AUTH_USER_MODEL, on_delete=models.SET_NULL, null=True, related_name="+")
    invited_at = models.DateTimeField(default=timezone.now)
    declined_at = models.DateTimeField(null=True)
    withdrawn_at = models.DateTimeField(null=True)

    class Meta:
        default_permissions = ()
        constraints = [models.UniqueConstraint(fields=["archive", "username"], name="space_invitation_once")]

    def __str__(self) -> str:
        return f"invitation {self.pk} to space {self.archive_id}"


class ProviderAddress(models.Model):
    """The e-mail address that an identity provider gave for an account which it made.

    For as long as the account has it, other providers find no account by it. All other addresses are of staff, who set
    them in the administration or by an invitation, or of a directory, which made the account.
    """

    person = models.OneToOneField(
        settings.AUTH_USER_MODEL, db_column="owner_id", on_delete=models.CASCADE, related_name="+"
    )
    issuer = models.TextField()
    email = models.EmailField()

    class Meta:
        default_permissions = ()

    def __str__(self) -> str:
        return f"address of user {self.person_id} by a provider"


class ScimToken(models.Model):
    """A bearer token with which a directory changes accounts by SCIM, and nothing else."""

    name = models.CharField(max_length=100)
    # The database's default serves processes of an earlier version, which do not name the column.
    reaches_staff = models.BooleanField(default=False, db_default=False)
    token_hash = models.BinaryField(max_length=32, unique=True)
    created_at = models.DateTimeField(default=timezone.now, editable=False)
    last_used_at = models.DateTimeField(null=True)
    revoked_at = models.DateTimeField(null=True)

    class Meta:
        verbose_name = "SCIM token"

    def __str__(self) -> str:
        return f"SCIM token {self.pk}"


class ProvisionedAccount(models.Model):
    """A person as a directory describes them by SCIM, beyond the columns of the user; absent until it does.

    `was_made` tells accounts that SCIM made from those that it found. Only of the first the directory sets the address
    of the user; what it says of the others is in `email`, which nothing but SCIM reads. `removed_at` is set if the
    directory deleted the person: SCIM does not show the account any more.
    """

    person = models.OneToOneField(
        settings.AUTH_USER_MODEL, db_column="owner_id", on_delete=models.CASCADE, related_name="provisioned"
    )
    external_id = models.CharField(max_length=255, blank=True, default="", db_index=True)
    email = models.EmailField(blank=True, default="", db_default="")
    email_type = models.CharField(max_length=255, blank=True, default="")
    email_is_primary = models.BooleanField(null=True, blank=True)
    was_made = models.BooleanField(default=False)
    updated_at = models.DateTimeField(default=timezone.now)
    removed_at = models.DateTimeField(null=True, blank=True)

    class Meta:
        default_permissions = ()

    def __str__(self) -> str:
        return f"provisioned user {self.person_id}"


class ProvisionedGroup(models.Model):
    """A Django group as a directory describes it by SCIM, beyond its name and members."""

    group = models.OneToOneField("auth.Group", on_delete=models.CASCADE, related_name="provisioned")
    external_id = models.CharField(max_length=255, blank=True, default="")
    created_at = models.DateTimeField(default=timezone.now)
    updated_at = models.DateTimeField(default=timezone.now)

    class Meta:
        default_permissions = ()

    def __str__(self) -> str:
        return f"provisioned group {self.group_id}"
