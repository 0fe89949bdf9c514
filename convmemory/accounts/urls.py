"""Addresses of the account pages; logging in and out is in `convmemory/urls.py`."""

from django.urls import path

from convmemory.accounts import joining_views, oidc_views, space_views, views
from convmemory.accounts import views as design_views
from convmemory.sign_in.forms import with_passwords

urlpatterns = [
    path("settings/account", views.account, name="account"),
    path("settings/appearance", views.appearance, name="appearance"),
    path("settings/keys/<int:key_id>/use", views.key_use, name="key-use"),
    path("settings/keys", views.keys, name="keys"),
    path("settings/keys/<int:key_id>/revoke", views.revoke, name="revoke-key"),
    path("spaces", space_views.spaces, name="spaces"),
    path("spaces/use", space_views.choose, name="choose-space"),
    path("spaces/<int:space_id>", space_views.space, name="space"),
    path("design", design_views.components, name="components"),
    path("settings/password", with_passwords(views.ChangePassword.as_view()), name="password"),
    path("invitations/<str:token>", with_passwords(joining_views.invitation), name="invitation"),
    path("login/with/<slug:name>", oidc_views.begin, name="provider"),
    path("login/with/<slug:name>/done", oidc_views.done, name="provider-done"),
    path("login/with/<slug:name>/out", oidc_views.sign_out, name="provider-out"),
    path("password/reset", with_passwords(joining_views.reset_password), name="reset-password"),
    path(
        "password/reset/<uidb64>/<token>",
        with_passwords(joining_views.ChoosePassword.as_view()),
        name="choose-password",
    ),
]
