"""API keys, who read whose content, and the use of models."""

import django.db.models.deletion
from django.conf import settings
from django.db import migrations, models


class Migration(migrations.Migration):
    replaces = [
        ("accounts", "0001_api_keys"),
        ("accounts", "0002_content_access"),
        ("accounts", "0003_key_limits_and_model_use"),
    ]

    initial = True

    dependencies = [
        migrations.swappable_dependency(settings.AUTH_USER_MODEL),
    ]

    operations = [
        migrations.CreateModel(
            name='ApiKey',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('name', models.CharField(blank=True, default='', max_length=100)),
                ('prefix', models.CharField(help_text='The first characters, to recognise a key by.', max_length=12)),
                ('key_hash', models.BinaryField(max_length=32, unique=True)),
                ('created_at', models.DateTimeField(auto_now_add=True)),
                ('last_used_at', models.DateTimeField(blank=True, null=True)),
                ('revoked_at', models.DateTimeField(blank=True, null=True)),
                ('owner', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='api_keys', to=settings.AUTH_USER_MODEL)),
                ('expires_at', models.DateTimeField(blank=True, help_text='Null: never.', null=True)),
                ('read_only', models.BooleanField(default=False, help_text='Searches and reads; changes nothing.')),
            ],
            options={
                'verbose_name': 'API key',
            },
        ),
        migrations.CreateModel(
            name='ContentAccess',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('what', models.CharField(max_length=200)),
                ('created_at', models.DateTimeField(auto_now_add=True)),
                ('owner', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='+', to=settings.AUTH_USER_MODEL)),
                ('reader', models.ForeignKey(null=True, on_delete=django.db.models.deletion.SET_NULL, related_name='+', to=settings.AUTH_USER_MODEL)),
            ],
            options={
                'verbose_name': 'reading of content',
                'verbose_name_plural': 'readings of content',
                'permissions': [('read_content', "Can read other people's content in the admin")],
                'default_permissions': (),
            },
        ),
        migrations.CreateModel(
            name='ModelUse',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('day', models.DateField()),
                ('tokens', models.BigIntegerField(default=0)),
                ('requests', models.PositiveIntegerField(default=0)),
                ('owner', models.ForeignKey(db_index=False, on_delete=django.db.models.deletion.CASCADE, related_name='+', to=settings.AUTH_USER_MODEL)),
            ],
            options={
                'verbose_name': 'use of the model',
                'verbose_name_plural': 'uses of the model',
                'constraints': [models.UniqueConstraint(fields=('owner', 'day'), name='model_use_once_a_day')],
            },
        ),
    ]
