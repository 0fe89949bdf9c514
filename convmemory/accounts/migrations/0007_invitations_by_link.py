from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("accounts", "0006_tokens_of_share_links")]

    operations = [
        migrations.AddField(
            model_name="spaceinvitation",
            name="by_link",
            field=models.BooleanField(db_default=False, default=False),
        ),
    ]
