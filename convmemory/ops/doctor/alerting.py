"""Mails operators what the doctor finds newly wrong, and what is well again. Reads and writes `Alert`."""

import re

from django.contrib.auth.models import User
from django.db import transaction

from convmemory.accounts.mail import can_send_mail, request_notice
from convmemory.core.config import config
from convmemory.ops.doctor.examining import examine
from convmemory.ops.doctor.findings import Finding, Severity, plural
from convmemory.ops.models import Alert

QUOTED = re.compile("“[^”]*”")
"""What an endpoint answered, which can repeat a text of a person; `manage.py doctor` shows it."""

REMEDY = "`manage.py doctor` shows everything; `manage.py doctor --fix` repairs what can be repaired without loss."


def operators() -> list[str]:
    """Return the addresses in ALERT_EMAILS, or those of superusers; none without an SMTP server."""
    if not can_send_mail() or config.alert_emails == ["none"]:
        return []
    superusers = User.objects.filter(is_superuser=True, is_active=True).exclude(email="")
    return config.alert_emails or sorted(set(superusers.values_list("email", flat=True)))


def examine_and_tell() -> tuple[list[str], list[str]]:
    """Examine the installation, if there is anyone to mail; return the ids that are new, and those that ended.

    The alerts are stored in the transaction that stores the mail: each is mailed once, also if two workers examine.
    """
    recipients = operators()
    if not recipients:
        return [], []
    findings: dict[str, list[Finding]] = {}
    for finding in examine().findings:
        if finding.severity > Severity.NOTICE:
            findings.setdefault(finding.id, []).append(finding)
    # What could not be examined may still be wrong.
    unknown = tuple(id.partition(".")[0] + "." for id in findings if id.endswith((".unknown", ".unreachable")))
    if "database.unreachable" in findings:  # which ends the examination
        unknown = ("",)
    with transaction.atomic():
        new = [id for id in sorted(findings) if Alert.objects.get_or_create(finding=id)[1]]
        over = Alert.objects.exclude(finding__in=findings).order_by("finding").values_list("finding", flat=True)
        ended = [id for id in over if not id.startswith(unknown) and Alert.objects.filter(finding=id).delete()[0]]
        if new or ended:
            subject = f"convmemory: {plural(len(new), 'new finding')}" if new else "convmemory: well again"
            parts = [
                f"{one.id}: {QUOTED.sub('…', one.message)}\n  -> {one.remedy}\n" for id in new for one in findings[id]
            ]
            parts += [f"Well again: {id}\n" for id in ended]
            parts += [f"{REMEDY}\n"] if new else []
            text = f"The doctor of {config.public_url} says:\n\n" + "\n".join(parts)
            for recipient in recipients:
                request_notice(recipient=recipient, subject=subject, text=text)
    return new, ended
