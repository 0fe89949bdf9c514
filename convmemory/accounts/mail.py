"""Sends mail in a worker: invitations, links to reset passwords, notices, warnings. Reads and writes `Mail`.

A web request only stores a row, whether or not the address has an account. The worker makes the links and talks to the
SMTP server of the settings; failures are retried a few times (`retrying.MAIL`).
"""

import logging
import smtplib
import time
from datetime import datetime, timedelta
from typing import Any

from django.contrib.auth.models import User
from django.contrib.auth.tokens import default_token_generator
from django.core.mail import EmailMessage, get_connection
from django.db import transaction
from django.db.models import Q, TextChoices
from django.urls import reverse
from django.utils import timezone
from django.utils.encoding import force_bytes
from django.utils.formats import date_format
from django.utils.functional import Promise
from django.utils.http import urlsafe_base64_encode
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy, override

from convmemory.accounts import invitations
from convmemory.accounts.models import Invitation, Mail, MailChoice
from convmemory.core.config import config
from convmemory.core.queue.retrying import MAIL
from convmemory.core.text import one_line

SMTP = "django.core.mail.backends.smtp.EmailBackend"
MOST_ACCOUNTS = 10  # with one address
LONG = timedelta(minutes=5)  # people rarely watch a page for longer
GIVEN_UP_AFTER = timedelta(hours=2)  # since the last attempt; a worker may have died in it

logger = logging.getLogger(__name__)


def can_send_mail() -> bool:
    return bool(config.email_host)


def request_mail(kind: Mail.Kind, *, recipient: str, language: str, invitation: Invitation | None = None) -> None:
    """Store a message to send. A password reset that still waits for the same address is not stored twice."""
    values = {"kind": kind, "recipient": recipient, "invitation": invitation, "sent_at": None}
    Mail.objects.get_or_create(**values, defaults={"language": language})


def request_notice(*, recipient: str, subject: str, text: str) -> None:
    """Store a notice, which a worker sends within a minute. It must contain nothing that people wrote."""
    Mail.objects.create(kind=Mail.Kind.NOTICE, recipient=recipient, subject=subject, text=text)


def choice_of(user: User) -> MailChoice:
    """Return the mail that the user has chosen, or the default."""
    return MailChoice.objects.filter(person_id=user.pk).first() or MailChoice(person_id=user.pk, language="en")


def notify(user: User, *, began_at: datetime, path: str, subject: Promise, text: Promise) -> None:
    """Store a notice that work of this user has ended, if they have an address and want mail about such work.

    Call it once for each end, and in no confined process, which cannot read catalogues. `text` names `%(began)s` and
    `%(link)s`, which leads to `path`.
    """
    if not (can_send_mail() and user.email and user.is_active):
        return
    choice = choice_of(user)
    is_long = timezone.now() - began_at > LONG
    if choice.notices == MailChoice.Notices.ALL or (choice.notices == MailChoice.Notices.LONG and is_long):
        with override(choice.language):
            values: dict[str, Any] = {
                "began": date_format(timezone.localtime(began_at), "DATETIME_FORMAT"),
                "link": config.public_url.rstrip("/") + path,
            }
            request_notice(recipient=user.email, subject=str(subject), text=str(text) % values)


class Change(TextChoices):
    """A change of what signs a person in, as a warning describes it."""

    ADDRESS = (
        "address",
        gettext_lazy("Your account no longer has this e-mail address."),
    )
    PASSWORD = "password", gettext_lazy("The password of your account was changed.")
    KEY = "key", gettext_lazy("An API key of your account was made, by which programs read what you have stored.")
    PROGRAM = "program", gettext_lazy("A program was given access to what you have stored.")
    APP = "app", gettext_lazy("An authenticator app was set up for your account.")
    APP_REMOVED = "app removed", gettext_lazy("The authenticator app of your account was removed.")
    PASSKEY = "passkey", gettext_lazy("A passkey was added to your account.")
    PASSKEY_REMOVED = "passkey removed", gettext_lazy("A passkey of your account was removed.")
    CODES = "codes", gettext_lazy("The recovery codes of your account were replaced by new ones.")
    FACTORS_REMOVED = "factors removed", gettext_lazy("The second factor and passkeys of your account were removed.")
    PROVIDER = "provider", gettext_lazy("An identity provider signs you in to your account from now on.")


def warn(user: User, change: Change, *, address: str | None = None) -> None:
    """Store a notice that the account was changed, whatever mail its person wants; an equal one that waits is enough.

    It goes to the person's address, or to `address`, which they had before. Call it as the person or as maintenance.
    """
    recipient = user.email if address is None else address
    if not (can_send_mail() and recipient):
        return
    with override(choice_of(user).language):
        text = _(
            "%(change)s\n\nThis was on %(at)s at %(site)s.\n\n"
            "If it was you, you need not do anything. If not: look through your sessions and API keys, end those that "
            "you do not know, and change your password if you have one. If you cannot sign in, ask who runs this "
            "server.\n\n"
            "%(link)s\n"
        )
        values = {
            "change": change.label,
            "at": date_format(timezone.localtime(), "DATETIME_FORMAT"),
            "site": config.public_url,
            "link": config.public_url.rstrip("/") + reverse("account"),
        }
        notice = {"recipient": recipient, "subject": _("Your account at convmemory was changed"), "text": text % values}
    if not Mail.objects.filter(kind=Mail.Kind.NOTICE, sent_at=None, **notice).exists():
        request_notice(**notice)


def send_due_mail(*, deadline: float) -> int:
    """Send the messages that are due until `deadline` (`time.monotonic()`); return how many were sent."""
    sent = 0
    while time.monotonic() < deadline and (mail := _next_mail()) is not None:
        try:
            sent += _send(mail)
        except (smtplib.SMTPException, OSError) as error:
            is_last = mail.attempts >= MAIL.max_attempts
            logger.warning("Mail %d was not sent (%s, attempt %d)", mail.pk, type(error).__name__, mail.attempts)
            if is_last and mail.invitation is None:
                mail.delete()
            else:
                mail.error = one_line(str(error), 200) or type(error).__name__
                mail.save(update_fields=["error"])
    return sent


def forget_failed_mail() -> int:
    """Delete password resets and notices that were never sent; return their number."""
    failed = Mail.objects.filter(invitation=None, attempts__gte=MAIL.max_attempts)
    return failed.filter(updated_at__lt=timezone.now() - GIVEN_UP_AFTER).delete()[0]


@transaction.atomic
def _next_mail() -> Mail | None:
    """Return the oldest message that is due, with this attempt counted, so that a worker that dies repeats no more."""
    now = timezone.now()
    due = Mail.objects.filter(Q(attempts=0) | MAIL.due(now), sent_at=None)
    due = due.filter(Q(invitation=None) | Q(invitation__expires_at__gt=now))
    mail = due.select_for_update(skip_locked=True, of=("self",)).order_by("pk").first()
    if mail is not None:
        mail.attempts, mail.updated_at = mail.attempts + 1, now
        mail.save(update_fields=["attempts", "updated_at"])
    return mail


def _send(mail: Mail) -> bool:
    """Send one message, if there is one to send. Raises: SMTPException, OSError."""
    with override(mail.language or "en"):
        if mail.kind == Mail.Kind.NOTICE:
            messages = [EmailMessage(mail.subject, mail.text, to=[mail.recipient])]
        else:
            messages = [_invitation_message(mail.invitation)] if mail.invitation else _reset_messages(mail.recipient)
    for message in messages:
        # The server is named, because Django's test runner would replace a default one.
        message.connection = get_connection(SMTP)
        message.send()
    if mail.invitation:
        mail.sent_at, mail.error = timezone.now(), ""
        mail.save(update_fields=["sent_at", "error"])
    else:
        mail.delete()
    return bool(messages)


def _invitation_message(invitation: Invitation) -> EmailMessage:
    text = _(
        "You are invited to convmemory at %(site)s.\n\n"
        "Choose your name and your password here. The link works once, until %(end)s:\n\n%(link)s\n\n"
        "If you did not expect this, you need not do anything.\n"
    )
    values = {
        "site": config.public_url,
        "end": date_format(timezone.localtime(invitation.expires_at), "DATETIME_FORMAT"),
        "link": config.public_url.rstrip("/") + invitations.path_of(invitation),
    }
    return EmailMessage(_("Your invitation to convmemory"), text % values, to=[invitation.email])


def _reset_messages(address: str) -> list[EmailMessage]:
    """Return a message for each account with this address that has a password."""
    text = _(
        "A new password was asked for at %(site)s, for the account “%(name)s”. Choose it here. "
        "The link works once, for %(hours)d hours:\n\n%(link)s\n\n"
        "If you did not ask for it, you need not do anything: your password stays as it is.\n"
    )
    values = {"site": config.public_url, "hours": config.password_reset_timeout // 3_600}
    accounts = User.objects.filter(email__iexact=address, is_active=True).order_by("pk")[:MOST_ACCOUNTS]
    # To the address of the account: the one that was typed may be equal to the database only, and another person's.
    return [
        EmailMessage(
            _("Your password at convmemory"),
            text % {**values, "name": user.username, "link": config.public_url.rstrip("/") + reset_path(user)},
            to=[user.email],
        )
        for user in accounts
        if user.has_usable_password()
    ]


def reset_path(user: User) -> str:
    """Return the path of the page where the user chooses a new password, once, within `PASSWORD_RESET_TIMEOUT`."""
    number = urlsafe_base64_encode(force_bytes(user.pk))
    return reverse("choose-password", args=[number, default_token_generator.make_token(user)])
