"""The identities that sign in by a provider, in the administration."""

from django.contrib import admin

from convmemory.core.administration.lists import OwnerFilter, UptoFilter
from convmemory.core.administration.metadata import DeletableAdmin
from convmemory.sign_in.models import LinkedIdentity


@admin.register(LinkedIdentity)
class LinkedIdentityAdmin(DeletableAdmin):
    """Identities, without their subjects; who deletes one ends that way into the account."""

    list_display = ("id", "person", "issuer", "created_at", "last_used_at")
    list_filter = (OwnerFilter, UptoFilter)
    fields = ("person", "issuer", "created_at", "last_used_at")
