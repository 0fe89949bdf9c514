from django.apps import AppConfig


class SignInConfig(AppConfig):
    name = "convmemory.sign_in"
    label = "sign_in"
    default_auto_field = "django.db.models.BigAutoField"
