"""Archives, their members, keys, links, quotas, invitations and what a directory provisions."""

import django.contrib.postgres.fields
import django.db.models.deletion
import django.utils.timezone
from django.conf import settings
from django.db import migrations, models


class Migration(migrations.Migration):
    replaces = [  # of the databases of commit 5e9aed6e
        ("accounts", "0001_api_keys"),
        ("accounts", "0002_content_access"),
        ("accounts", "0003_key_limits_and_model_use"),
        ("accounts", "0004_connections"),
        ("accounts", "0005_invitations_and_mail"),
        ("accounts", "0006_spaces"),
        ("accounts", "0007_share_links"),
        ("accounts", "0008_audit_log"),
        ("accounts", "0009_legal_holds"),
        ("accounts", "0010_keys_read_spaces"),
        ("accounts", "0011_notices"),
        ("accounts", "0012_quotas"),
        ("accounts", "0013_moved_and_copied"),
        ("accounts", "0014_scim"),
        ("accounts", "0015_memberships_by_groups"),
        ("accounts", "0016_keys_write_to_spaces"),
    ]

    initial = True

    dependencies = [
        ('auth', '0012_alter_user_first_name_max_length'),
        migrations.swappable_dependency(settings.AUTH_USER_MODEL),
    ]

    operations = [
        migrations.CreateModel(
            name='Invitation',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('email', models.EmailField(blank=True, default='', help_text='Empty: you pass on the link.', max_length=254, verbose_name='e-mail address')),
                ('created_at', models.DateTimeField(default=django.utils.timezone.now, editable=False)),
                ('expires_at', models.DateTimeField(editable=False)),
            ],
            options={
                'verbose_name': 'invitation',
            },
        ),
        migrations.CreateModel(
            name='ScimToken',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('name', models.CharField(max_length=100)),
                ('token_hash', models.BinaryField(max_length=32, unique=True)),
                ('created_at', models.DateTimeField(default=django.utils.timezone.now, editable=False)),
                ('last_used_at', models.DateTimeField(null=True)),
                ('revoked_at', models.DateTimeField(null=True)),
            ],
            options={
                'verbose_name': 'SCIM token',
            },
        ),
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
                ('expires_at', models.DateTimeField(blank=True, help_text='Null: never.', null=True)),
                ('read_only', models.BooleanField(default=False, help_text='Searches and reads; changes nothing.')),
                ('space_ids', django.contrib.postgres.fields.ArrayField(base_field=models.IntegerField(), blank=True, db_default=[], default=list, help_text='The spaces that it reads, if the owner is a member. Null: all.', null=True, size=None)),
                ('writes_spaces', models.BooleanField(db_default=False, default=False, help_text="It also writes to these spaces, as far as the owner's role allows.")),
                ('client_id', models.TextField(blank=True, default='', help_text='The program that got the key by OAuth.')),
                ('code_token_hash', models.BinaryField(max_length=32, null=True, unique=True)),
                ('refresh_token_hash', models.BinaryField(max_length=32, null=True)),
                ('renewable_until', models.DateTimeField(blank=True, help_text='Of a key that its program renews.', null=True)),
                ('person', models.ForeignKey(db_column='owner_id', on_delete=django.db.models.deletion.CASCADE, related_name='api_keys', to=settings.AUTH_USER_MODEL)),
            ],
            options={
                'verbose_name': 'API key',
            },
        ),
        migrations.CreateModel(
            name='Archive',
            fields=[
                ('id', models.IntegerField(primary_key=True, serialize=False)),
                ('kind', models.CharField(choices=[('own', 'Own'), ('space', 'Space')], max_length=10)),
                ('name', models.CharField(blank=True, default='', help_text='Of a space.', max_length=100, verbose_name='name')),
                ('created_at', models.DateTimeField(default=django.utils.timezone.now, editable=False)),
                ('person', models.OneToOneField(blank=True, null=True, on_delete=django.db.models.deletion.CASCADE, related_name='archive', to=settings.AUTH_USER_MODEL)),
            ],
        ),
        migrations.CreateModel(
            name='AuditEntry',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('created_at', models.DateTimeField(auto_now_add=True, db_index=True)),
                ('action', models.CharField(choices=[('read', 'Read'), ('exported', 'Exported'), ('made', 'Made'), ('changed', 'Changed'), ('moved', 'Moved'), ('copied', 'Copied'), ('revoked', 'Revoked'), ('trashed', 'Trashed'), ('restored', 'Restored'), ('deleted', 'Deleted'), ('erased', 'Erased'), ('held', 'Held'), ('released', 'Released'), ('signed in', 'Signed In'), ('sign-in failed', 'Sign In Failed')], max_length=30)),
                ('surface', models.CharField(help_text='page, api, agent, admin or command', max_length=10)),
                ('what', models.CharField(help_text='The kind and the number of an object.', max_length=200)),
                ('about', models.ForeignKey(null=True, on_delete=django.db.models.deletion.SET_NULL, related_name='+', to='accounts.archive')),
                ('person', models.ForeignKey(null=True, on_delete=django.db.models.deletion.SET_NULL, related_name='+', to=settings.AUTH_USER_MODEL)),
            ],
            options={
                'verbose_name': 'audit entry',
                'verbose_name_plural': 'audit log',
                'permissions': [('read_content', "Can read other people's content in the admin")],
                'default_permissions': (),
            },
        ),
        migrations.CreateModel(
            name='GroupQuota',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('stored_mb', models.PositiveBigIntegerField(blank=True, null=True, verbose_name='megabytes')),
                ('turns', models.PositiveBigIntegerField(blank=True, null=True)),
                ('documents', models.PositiveBigIntegerField(blank=True, null=True)),
                ('monthly_tokens', models.PositiveBigIntegerField(blank=True, null=True, verbose_name='tokens a month')),
                ('group', models.OneToOneField(on_delete=django.db.models.deletion.CASCADE, related_name='quota', to='auth.group')),
            ],
            options={
                'verbose_name': "quota of a group's members",
                'verbose_name_plural': "quotas of groups' members",
            },
        ),
        migrations.CreateModel(
            name='LegalHold',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('conversation_id', models.BigIntegerField(blank=True, help_text='Empty: all that the account has.', null=True)),
                ('reason', models.CharField(help_text="The person's archive of everything contains it.", max_length=500)),
                ('created_at', models.DateTimeField(auto_now_add=True)),
                ('lifted_at', models.DateTimeField(editable=False, help_text='Empty: it is in force.', null=True)),
                ('lift_reason', models.CharField(default='', max_length=500, verbose_name='reason to lift it')),
                ('archive', models.ForeignKey(db_column='owner_id', on_delete=django.db.models.deletion.CASCADE, related_name='+', to='accounts.archive')),
            ],
            options={
                'verbose_name': 'legal hold',
            },
        ),
        migrations.CreateModel(
            name='Mail',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('kind', models.CharField(choices=[('invitation', 'Invitation'), ('password_reset', 'Password Reset'), ('notice', 'Notice')], max_length=20)),
                ('recipient', models.EmailField(max_length=254)),
                ('language', models.CharField(blank=True, default='', help_text='Empty: of a notice.', max_length=10)),
                ('subject', models.CharField(blank=True, db_default='', default='', max_length=200)),
                ('text', models.TextField(blank=True, db_default='', default='')),
                ('attempts', models.PositiveSmallIntegerField(default=0)),
                ('updated_at', models.DateTimeField(default=django.utils.timezone.now)),
                ('sent_at', models.DateTimeField(null=True)),
                ('error', models.CharField(blank=True, default='', max_length=200)),
                ('invitation', models.OneToOneField(null=True, on_delete=django.db.models.deletion.CASCADE, related_name='mail', to='accounts.invitation')),
            ],
            options={
                'default_permissions': (),
            },
        ),
        migrations.CreateModel(
            name='MailChoice',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('notices', models.CharField(choices=[('none', 'Never'), ('long', 'If it took longer than five minutes'), ('all', 'Always, also if a program sent the import')], default='long', max_length=10)),
                ('language', models.CharField(max_length=10)),
                ('person', models.OneToOneField(db_column='owner_id', on_delete=django.db.models.deletion.CASCADE, related_name='+', to=settings.AUTH_USER_MODEL)),
            ],
            options={
                'default_permissions': (),
            },
        ),
        migrations.CreateModel(
            name='Membership',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('role', models.CharField(choices=[('reader', 'Reader'), ('contributor', 'Contributor'), ('manager', 'Manager')], default='reader', max_length=20, verbose_name='role')),
                ('added_at', models.DateTimeField(default=django.utils.timezone.now, editable=False)),
                ('given_by', models.CharField(blank=True, db_default='', default='', help_text='The identity provider. Empty: a manager.', max_length=40)),
                ('archive', models.ForeignKey(db_index=False, on_delete=django.db.models.deletion.CASCADE, related_name='memberships', to='accounts.archive')),
                ('person', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='memberships', to=settings.AUTH_USER_MODEL)),
            ],
            options={
                'verbose_name': 'member of a space',
                'verbose_name_plural': 'members of spaces',
            },
        ),
        migrations.CreateModel(
            name='ModelUse',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('day', models.DateField()),
                ('tokens', models.BigIntegerField(default=0)),
                ('requests', models.PositiveIntegerField(default=0)),
                ('archive', models.ForeignKey(db_column='owner_id', db_index=False, on_delete=django.db.models.deletion.CASCADE, related_name='+', to='accounts.archive')),
            ],
            options={
                'verbose_name': 'use of the model',
                'verbose_name_plural': 'uses of the model',
            },
        ),
        migrations.CreateModel(
            name='ProvisionedAccount',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('external_id', models.CharField(blank=True, db_index=True, default='', max_length=255)),
                ('email_type', models.CharField(blank=True, default='', max_length=255)),
                ('email_is_primary', models.BooleanField(blank=True, null=True)),
                ('was_made', models.BooleanField(default=False)),
                ('updated_at', models.DateTimeField(default=django.utils.timezone.now)),
                ('removed_at', models.DateTimeField(blank=True, null=True)),
                ('person', models.OneToOneField(db_column='owner_id', on_delete=django.db.models.deletion.CASCADE, related_name='provisioned', to=settings.AUTH_USER_MODEL)),
            ],
            options={
                'default_permissions': (),
            },
        ),
        migrations.CreateModel(
            name='ProvisionedGroup',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('external_id', models.CharField(blank=True, default='', max_length=255)),
                ('created_at', models.DateTimeField(default=django.utils.timezone.now)),
                ('updated_at', models.DateTimeField(default=django.utils.timezone.now)),
                ('group', models.OneToOneField(on_delete=django.db.models.deletion.CASCADE, related_name='provisioned', to='auth.group')),
            ],
            options={
                'default_permissions': (),
            },
        ),
        migrations.CreateModel(
            name='Quota',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('stored_mb', models.PositiveBigIntegerField(blank=True, null=True, verbose_name='megabytes')),
                ('turns', models.PositiveBigIntegerField(blank=True, null=True)),
                ('documents', models.PositiveBigIntegerField(blank=True, null=True)),
                ('monthly_tokens', models.PositiveBigIntegerField(blank=True, null=True, verbose_name='tokens a month')),
                ('archive', models.OneToOneField(db_column='owner_id', on_delete=django.db.models.deletion.CASCADE, related_name='+', to='accounts.archive')),
            ],
            options={
                'verbose_name': 'quota',
            },
        ),
        migrations.CreateModel(
            name='ShareLink',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('token_hash', models.BinaryField(max_length=32, unique=True)),
                ('conversation_id', models.BigIntegerField(db_index=True)),
                ('opening_message_id', models.BigIntegerField(help_text='Of the only turn that is shown. Null: all are.', null=True)),
                ('last_message_id', models.BigIntegerField(help_text='Messages with a higher id are not shown.')),
                ('people_only', models.BooleanField(default=True, help_text='Only signed-in users may open it.')),
                ('created_at', models.DateTimeField(auto_now_add=True)),
                ('expires_at', models.DateTimeField(help_text='Null: never.', null=True)),
                ('opened_count', models.PositiveIntegerField(default=0)),
                ('last_opened_at', models.DateTimeField(null=True)),
                ('archive', models.ForeignKey(db_column='owner_id', on_delete=django.db.models.deletion.CASCADE, related_name='+', to='accounts.archive')),
            ],
            options={
                'verbose_name': 'share link',
            },
        ),
        migrations.AddConstraint(
            model_name='archive',
            constraint=models.CheckConstraint(condition=models.Q(models.Q(('kind', 'own'), ('person_id', models.F('id'))), models.Q(('kind', 'space'), ('person_id__isnull', True)), _connector='OR'), name='archive_of_one_person_or_space'),
        ),
        migrations.AddConstraint(
            model_name='membership',
            constraint=models.UniqueConstraint(fields=('archive', 'person'), name='membership_once'),
        ),
        migrations.AddConstraint(
            model_name='modeluse',
            constraint=models.UniqueConstraint(fields=('archive', 'day'), name='model_use_once_a_day'),
        ),
    ]
