from django.apps import AppConfig


class EmbeddingsConfig(AppConfig):
    name = "convmemory.embeddings"
    label = "embeddings"
    default_auto_field = "django.db.models.BigAutoField"

    def ready(self) -> None:
        from convmemory.embeddings import spaces  # noqa: F401 (registers them)
