from django.apps import AppConfig


class OpsConfig(AppConfig):
    name = "convmemory.ops"
    label = "ops"
    verbose_name = "Operations"
    default_auto_field = "django.db.models.BigAutoField"

    def ready(self) -> None:
        from convmemory.core.measuring import measured
        from convmemory.ops.observability import measures
        from convmemory.ops.observability.measures import on_measured
        from convmemory.ops.runtime import warming

        measured.connect(on_measured, dispatch_uid="ops.measures")
        measures.connect()
        warming.connect()
