"""The form of a person's retention rule."""

from typing import Any

from django import forms
from django.utils.translation import gettext as _

from convmemory.retention.models import RetentionRule


class RuleForm(forms.ModelForm):  # type: ignore[type-arg]
    """Offers the sources that the owner's conversations have; the project is typed, or chosen from theirs."""

    class Meta:
        model = RetentionRule
        fields = ("source", "project", "days")

    def __init__(self, *args: Any, sources: list[str], **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.fields["source"].widget = forms.Select(
            choices=[("", _("any source")), *((name, name) for name in sources)]
        )
        self.fields["project"].widget.attrs["list"] = "projects"
