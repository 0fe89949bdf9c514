"""Addresses of signing in and of the account pages."""

from django.urls import path

from convmemory.accounts import joining_views, oidc_views, sign_in_views, space_views, views
from convmemory.accounts import views as design_views
from convmemory.accounts.scim.views import scim
from convmemory.sign_in.forms import with_passwords

urlpatterns = [
    path("settings/account", views.account, name="account"),
    path("settings/appearance", views.appearance, name="appearance"),
    path("settings/keys/<int:key_id>/use", views.key_use, name="key-use"),
    path("settings/keys", views.keys, name="keys"),
    path("settings/keys/<int:key_id>/revoke", views.revoke, name="revoke-key"),
    path("settings/sessions", views.sessions, name="sessions"),
    path("spaces", space_views.spaces, name="spaces"),
    path("spaces/invitations", space_views.answer_invitation, name="answer-invitation"),
    path("spaces/join/<str:token>", space_views.join, name="join-space"),
    path("spaces/use", space_views.choose, name="choose-space"),
    path("spaces/choices", space_views.space_choices, name="space-choices"),
    path("spaces/<int:space_id>", space_views.space, name="space"),
    path("design", design_views.components, name="components"),
    path("settings/password", with_passwords(views.ChangePassword.as_view()), name="password"),
    path("settings/confirm", with_passwords(sign_in_views.confirm), name="confirm"),
    path("settings/second-factor", with_passwords(sign_in_views.second_factor_page), name="second-factor"),
    path("settings/second-factor/app", with_passwords(sign_in_views.set_up_app), name="set-up-app"),
    path("settings/second-factor/app/remove", with_passwords(sign_in_views.remove_app), name="remove-app"),
    path("settings/second-factor/codes", with_passwords(sign_in_views.renew_recovery_codes), name="recovery-codes"),
    path("settings/second-factor/passkeys/add", with_passwords(sign_in_views.add_passkey), name="add-passkey"),
    path(
        "settings/second-factor/passkeys/<int:passkey_id>/rename",
        with_passwords(sign_in_views.rename_passkey),
        name="rename-passkey",
    ),
    path(
        "settings/second-factor/passkeys/<int:passkey_id>/remove",
        with_passwords(sign_in_views.remove_passkey),
        name="remove-passkey",
    ),
    path("login", sign_in_views.SignIn.as_view(), name="login"),
    path("login/code", with_passwords(sign_in_views.second_step), name="second-step"),
    path("login/passkey", with_passwords(sign_in_views.passkey_sign_in), name="passkey-sign-in"),
    path("invitations/<str:token>", with_passwords(joining_views.invitation), name="invitation"),
    path("logout", oidc_views.SignOut.as_view(), name="logout"),
    path("login/with/<slug:name>", oidc_views.begin, name="provider"),
    path("login/with/<slug:name>/done", oidc_views.done, name="provider-done"),
    path("login/with/<slug:name>/out", oidc_views.sign_out, name="provider-out"),
    path("password/reset", with_passwords(joining_views.reset_password), name="reset-password"),
    path(
        "password/reset/<uidb64>/<token>",
        with_passwords(joining_views.ChoosePassword.as_view()),
        name="choose-password",
    ),
    path("scim/v2", scim),
    path("scim/v2/", scim),
    path("scim/v2/<path:path>", scim),
]
