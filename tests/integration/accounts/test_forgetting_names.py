"""The admin's log of an installation that has kept names of keys in it."""

import pkgutil
from importlib import import_module

import pytest
from django.apps import apps
from django.contrib.admin.models import CHANGE, LogEntry

from convmemory.accounts import migrations
from convmemory.accounts.keys import create_key
from convmemory.accounts.models import ApiKey, AuditEntry
from tests.factories import make_user

NAME = "key_limits_and_model_use"


@pytest.mark.django_db
def test_migration_removes_names_of_keys_from_admin_log_only() -> None:
    owner = make_user()
    create_key(owner=owner, name="zebrawood")
    AuditEntry.objects.create(action="read", person=owner, about=owner, what="zebrawood")
    key, access = ApiKey.objects.get(), AuditEntry.objects.get(action="read")
    for row in (key, access):
        LogEntry.objects.log_actions(owner.pk, [row], CHANGE, "Revoke.")
    LogEntry.objects.update(object_repr="cvm_abc… (zebrawood)")
    [found] = [module.name for module in pkgutil.iter_modules(migrations.__path__) if module.name.endswith(NAME)]
    forget = import_module(f"{migrations.__name__}.{found}").forget_names_in_the_log
    for _ in range(2):
        forget(apps, None)
    said = dict(LogEntry.objects.values_list("content_type__model", "object_repr"))
    assert said == {"apikey": f"API key {key.pk}", "auditentry": "cvm_abc… (zebrawood)"}
