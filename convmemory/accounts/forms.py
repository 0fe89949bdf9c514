"""Forms of the account pages."""

from django import forms


class NewKeyForm(forms.Form):
    """What a new API key is for."""

    name = forms.CharField(
        max_length=100,
        required=False,
        label="Name",
        widget=forms.TextInput(attrs={"placeholder": "What is it for? Laptop, backup script, …"}),
    )
