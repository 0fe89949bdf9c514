"""Files of this machine's agents as they were when they were last imported."""

import django.db.models.deletion
from django.conf import settings
from django.db import migrations, models


class Migration(migrations.Migration):

    dependencies = [
        ('conversations', '0007_hidden_keys'),
        migrations.swappable_dependency(settings.AUTH_USER_MODEL),
    ]

    operations = [
        migrations.CreateModel(
            name='SyncedFile',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('path', models.TextField()),
                ('agent', models.CharField(max_length=50)),
                ('device', models.DecimalField(decimal_places=0, max_digits=20)),
                ('inode', models.DecimalField(decimal_places=0, max_digits=20)),
                ('size', models.BigIntegerField()),
                ('modified_ns', models.BigIntegerField()),
                ('head', models.BinaryField(max_length=32)),
                ('head_bytes', models.PositiveIntegerField()),
                ('imported_at', models.DateTimeField(auto_now=True)),
                ('owner', models.ForeignKey(db_index=False, on_delete=django.db.models.deletion.CASCADE, related_name='+', to=settings.AUTH_USER_MODEL)),
            ],
        ),
        migrations.AddConstraint(
            model_name='syncedfile',
            constraint=models.UniqueConstraint(fields=('owner', 'path'), name='synced_file_unique'),
        ),
    ]
