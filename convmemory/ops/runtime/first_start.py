"""Sets up a new installation: an administrator and the sample conversations.

The account is created at once, so that its password can be shown. The worker's preparation loads the samples; a marker
file under VAR_DIR records until then that they are missing, even after a crash.
"""

import secrets
from pathlib import Path

from django.contrib.auth.models import User
from django.db import transaction

from convmemory.core.acting import beside

ADMIN_NAME = "admin"


def create_admin(var_folder: Path) -> str | None:
    """Create an administrator if there is no user; return the password, otherwise None."""
    with transaction.atomic():
        if User.objects.exists():
            return None
        _marker(var_folder).touch()
        password = secrets.token_urlsafe(12)
        User.objects.create_superuser(ADMIN_NAME, password=password)
        return password


def load_pending_samples(var_folder: Path) -> int:
    """Load the sample conversations if this installation still lacks them; return their number."""
    marker = _marker(var_folder)
    if not marker.exists():
        return 0
    from convmemory.conversations.samples_loader import load_samples

    owner = User.objects.filter(username=ADMIN_NAME).first()
    count = 0
    if owner:
        with beside(owner.pk):
            count = load_samples(owner)
    marker.unlink(missing_ok=True)
    return count


def _marker(var_folder: Path) -> Path:
    return var_folder / "samples.pending"
