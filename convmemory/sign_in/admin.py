"""The administration's sign-in form, with the same pauses."""

from django.contrib import admin

from convmemory.sign_in.forms import AdminSignInForm

admin.site.login_form = AdminSignInForm
