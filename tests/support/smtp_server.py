"""A real SMTP server on 127.0.0.1, which keeps what it is sent, or refuses it for the time being."""

import re
from collections.abc import Iterator
from contextlib import contextmanager
from email import message_from_bytes, policy
from email.message import EmailMessage
from typing import Any

from aiosmtpd.controller import Controller
from pytest_django import Settings

from tests.support.fleet import free_port

SITE = "https://memory.example"
LINK = re.compile(r"https?://\S+")


class Mailbox:
    """The messages that were accepted. While `is_refusing`, each is answered with a temporary error."""

    def __init__(self) -> None:
        self.messages: list[EmailMessage] = []
        self.attempts = 0
        self.is_refusing = False

    async def handle_DATA(self, server: Any, session: Any, envelope: Any) -> str:
        self.attempts += 1
        if self.is_refusing:
            return "451 the mailbox is locked"
        found = message_from_bytes(envelope.content, policy=policy.default)
        assert isinstance(found, EmailMessage)
        self.messages.append(found)
        return "250 OK"

    def link(self) -> str:
        """Return the only link in the last message, whose path a test client can open."""
        (*_, link) = LINK.findall(self.messages[-1].get_content())
        return str(link)


@contextmanager
def running_smtp_server(settings: Settings, site: str = SITE) -> Iterator[Mailbox]:
    """Run the server, which the settings name; links of mail begin with `site`."""
    mailbox = Mailbox()
    controller = Controller(mailbox, hostname="127.0.0.1", port=free_port())
    controller.start()
    settings.EMAIL_HOST, settings.EMAIL_PORT, settings.EMAIL_USE_TLS = "127.0.0.1", controller.port, False
    settings.PUBLIC_URL, settings.DEFAULT_FROM_EMAIL = site, "memory@example.org"
    try:
        yield mailbox
    finally:
        controller.stop()
