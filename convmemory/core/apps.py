from django.apps import AppConfig
from django.db.models.signals import post_migrate, post_save


class CoreConfig(AppConfig):
    name = "convmemory.core"
    label = "core"
    default_auto_field = "django.db.models.BigAutoField"

    def ready(self) -> None:
        from convmemory.core import checks  # noqa: F401 (importing the checks registers them)
        from convmemory.core.postgres import groups, row_security
        from convmemory.core.queue import broker

        broker.install()
        post_migrate.connect(row_security.after_migrate, sender=self)
        post_save.connect(groups.after_archive_saved, sender="accounts.Archive", dispatch_uid="core.groups")
