from django.apps import AppConfig
from django.contrib.auth.signals import user_logged_in, user_login_failed
from django.db.models.signals import post_save


class AccountsConfig(AppConfig):
    name = "convmemory.accounts"
    label = "accounts"
    default_auto_field = "django.db.models.BigAutoField"

    def ready(self) -> None:
        from convmemory.accounts import auditing, users

        user_logged_in.connect(auditing.on_signed_in)
        user_login_failed.connect(auditing.on_sign_in_failed)
        post_save.connect(users.on_user_saved, sender="auth.User")
        post_save.connect(auditing.on_staff_acted, sender="admin.LogEntry")
